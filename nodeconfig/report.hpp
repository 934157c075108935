// How plans and outcomes are shown: text for people, JSON for programs (docs/node-profile.md). Pure.
#pragma once

#include <string>
#include <vector>

#include "nodeconfig/advice.hpp"
#include "nodeconfig/apply.hpp"

namespace podlane::nodeconfig {

struct Report {
  const Profile& profile;
  const Plan& plan;
  const std::vector<Advice>& advice;
};

enum class Shown { kChanges, kAll };  // kChanges: without what is in force already.

std::string render_text(const Report& report, Shown shown);
std::string render_json(const Report& report);
std::string render_text(const std::vector<Undone>& undone);
std::string render_json(const std::vector<Undone>& undone);

}  // namespace podlane::nodeconfig
