"""Compares what the guest said with what the scenario expects. Every difference is a problem, in either direction."""
import json
import re


def results_of(path):
    """Step name -> result; and whether the guest came to its end."""
    found, ended = {}, False
    for line in path.read_text(errors="replace").splitlines() if path.exists() else []:
        try:
            value = json.loads(line)
        except json.JSONDecodeError:
            continue
        if value.get("end"):
            ended = True
        elif "step" in value:
            found[value["step"]] = value
    return found, ended


def step_line(line):
    """A line of the guest in words, or nothing."""
    try:
        value = json.loads(line)
    except json.JSONDecodeError:
        return None
    if "step" not in value:
        return None
    tests = value.get("gtest")
    count = f", {tests['tests']} tests, {tests['failures']} failed" if tests else ""
    return f"{value['step']}: status {value['status']}, {value['seconds']} s{count}"


def tail(path, lines):
    text = path.read_text(errors="replace") if path.exists() else ""
    return "\n".join("    " + line for line in text.splitlines()[-lines:])


def indent(text, lines=40):
    return "\n".join("      " + line for line in text.splitlines()[-lines:])


def unlike(expected, got, where="json"):
    """Why `got` does not hold what is expected, or nothing. "/…/" is a regular expression, {"atLeast": n} a lower bound."""
    if isinstance(expected, dict) and set(expected) == {"atLeast"}:
        good = isinstance(got, (int, float)) and got >= expected["atLeast"]
        return None if good else f"{where} is {got!r}, expected at least {expected['atLeast']}"
    if isinstance(expected, dict):
        if not isinstance(got, dict):
            return f"{where} is {got!r}, expected an object"
        for key, value in expected.items():
            if key not in got:
                return f"{where}.{key} is missing"
            problem = unlike(value, got[key], f"{where}.{key}")
            if problem:
                return problem
        return None
    if isinstance(expected, str) and len(expected) > 1 and expected[0] == expected[-1] == "/":
        return None if isinstance(got, str) and re.search(expected[1:-1], got) else f"{where} is {got!r}, expected {expected}"
    return None if expected == got else f"{where} is {got!r}, expected {expected!r}"


def last_json(output):
    for line in reversed(output.splitlines()):
        try:
            return json.loads(line)
        except json.JSONDecodeError:
            continue
    return None


def suite_problems(step, result):
    """All tests pass, and what they record as different on this kernel is what the scenario lists: no more, no less."""
    tests = result.get("gtest")
    if not tests or not tests.get("tests"):
        return ["ran no test"]
    problems, listed = [], dict(step.get("differs", {}))
    for suite in tests["testsuites"]:
        for test in suite["testsuite"]:
            name = f"{suite['name']}.{test['name']}"
            for failure in test.get("failures", []):
                problems.append(f"{name} failed:\n{indent(failure['failure'], 12)}")
            recorded, expected = test.get("differs"), listed.pop(name, None)
            if recorded != expected:
                problems.append(f"{name} says of this kernel {recorded!r}, the scenario lists {expected!r}")
    problems += [f"{name} is listed as different and did not run" for name in listed]
    return problems


def step_problems(step, result):
    expect, output = step.get("expect", {}), result.get("output", "")
    problems = suite_problems(step, result) if "suite" in step else []
    if result["status"] != expect.get("status", 0) and not problems:
        problems.append(f"status {result['status']}, expected {expect.get('status', 0)}" +
                        (", out of time" if result["status"] in (124, 137, 143) else ""))
    problems += [f"'{word}' is not in the output" for word in expect.get("words", []) if word not in output]
    if "json" in expect:
        problem = unlike(expect["json"], last_json(output))
        problems += [problem] if problem else []
    if problems and ("suite" not in step or result.get("gtest") is None):
        problems.append(f"it said:\n{indent(output)}")
    return problems


def compare(wanted, path):
    results, ended = results_of(path)
    problems = []
    for step in wanted.steps:
        if "reboot" in step:
            continue
        result = results.get(step["name"])
        if result is None:
            problems.append(f"{step['name']}: did not run")
            continue
        problems += [f"{step['name']}: {problem}" for problem in step_problems(step, result)]
    if not ended:
        problems.append("the guest did not come to the end of its steps")
    return problems
