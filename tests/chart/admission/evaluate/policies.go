// The two admission policies as the API server itself compiles and evaluates them: k8s.io/apiserver of Kubernetes 1.36.
// tests/chart/admission.sh builds this with the packages of Debian's newer suite.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"
)

var (
	podKind     = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	podResource = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

// Policies holds what one rendering of the chart gives. Either may be missing.
type Policies struct {
	mutating   *admissionv1.MutatingAdmissionPolicy
	validating *admissionv1.ValidatingAdmissionPolicy
	compiler   *plugincel.CompositedCompiler // Of the mutating policy.
	matcher    matchconditions.Matcher
	patchers   []patch.Patcher
	checker    *plugincel.CompositedCompiler
	validator  validating.Validator
	scheme     *runtime.Scheme
}

// Load reads rendered YAML. A field that the API does not have is an error.
func Load(paths ...string) (*Policies, error) {
	policies := &Policies{scheme: runtime.NewScheme()}
	if err := corev1.AddToScheme(policies.scheme); err != nil {
		return nil, err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, part := range regexp.MustCompile(`(?m)^---\s*$`).Split(string(text), -1) {
			if err := policies.add([]byte(part)); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	return policies, policies.compile()
}

func (policies *Policies) add(text []byte) error {
	var head struct{ Kind string }
	if err := yaml.Unmarshal(text, &head); err != nil {
		return err
	}
	switch head.Kind {
	case "MutatingAdmissionPolicy":
		policies.mutating = &admissionv1.MutatingAdmissionPolicy{}
		return yaml.UnmarshalStrict(text, policies.mutating)
	case "ValidatingAdmissionPolicy":
		policies.validating = &admissionv1.ValidatingAdmissionPolicy{}
		return yaml.UnmarshalStrict(text, policies.validating)
	case "MutatingAdmissionPolicyBinding":
		return yaml.UnmarshalStrict(text, &admissionv1.MutatingAdmissionPolicyBinding{})
	case "ValidatingAdmissionPolicyBinding":
		return yaml.UnmarshalStrict(text, &admissionv1.ValidatingAdmissionPolicyBinding{})
	}
	return fmt.Errorf("kind %q is none of the admission policies", head.Kind)
}

// A 1.36 API server compiles policies with what its predecessor understands, so that it can be rolled back.
func newCompiler() (*plugincel.CompositedCompiler, error) {
	return plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(version.MajorMinor(1, 35)))
}

func matcherOf(compiler *plugincel.CompositedCompiler, conditions []admissionv1.MatchCondition, policy admissionv1.FailurePolicyType,
	options plugincel.OptionalVariableDeclarations, name string) matchconditions.Matcher {
	accessors := make([]plugincel.ExpressionAccessor, len(conditions))
	for i := range conditions {
		accessors[i] = (*matchconditions.MatchCondition)(&conditions[i])
	}
	return matchconditions.NewMatcher(compiler.CompileCondition(accessors, options, environment.NewExpressions), &policy, "policy", "", name)
}

func storeVariables(compiler *plugincel.CompositedCompiler, variables []admissionv1.Variable, options plugincel.OptionalVariableDeclarations) error {
	for _, variable := range variables {
		result := compiler.CompileAndStoreVariable(&validating.Variable{Name: variable.Name, Expression: variable.Expression}, options, environment.NewExpressions)
		if result.Error != nil {
			return fmt.Errorf("variable %s: %v", variable.Name, result.Error)
		}
	}
	return nil
}

func (policies *Policies) compile() error {
	options := plugincel.OptionalVariableDeclarations{HasAuthorizer: true}
	var err error
	if policy := policies.mutating; policy != nil {
		if policies.compiler, err = newCompiler(); err != nil {
			return err
		}
		if err := storeVariables(policies.compiler, policy.Spec.Variables, options); err != nil {
			return fmt.Errorf("%s: %w", policy.Name, err)
		}
		policies.matcher = matcherOf(policies.compiler, policy.Spec.MatchConditions, *policy.Spec.FailurePolicy, options, policy.Name)
		patches := options
		patches.HasPatchTypes = true
		for i, mutation := range policy.Spec.Mutations {
			evaluator := policies.compiler.CompileMutatingEvaluator(&patch.JSONPatchCondition{Expression: mutation.JSONPatch.Expression}, patches, environment.NewExpressions)
			if problems := evaluator.CompilationErrors(); len(problems) > 0 {
				return fmt.Errorf("%s: mutations[%d]: %v", policy.Name, i, problems)
			}
			policies.patchers = append(policies.patchers, patch.NewJSONPatcher(evaluator))
		}
	}
	if policy := policies.validating; policy != nil {
		if policies.checker, err = newCompiler(); err != nil {
			return err
		}
		if err := storeVariables(policies.checker, policy.Spec.Variables, options); err != nil {
			return fmt.Errorf("%s: %w", policy.Name, err)
		}
		var validations, messages []plugincel.ExpressionAccessor
		for _, one := range policy.Spec.Validations {
			validations = append(validations, &validating.ValidationCondition{Expression: one.Expression, Message: one.Message, Reason: one.Reason})
			messages = append(messages, &validating.MessageExpressionCondition{MessageExpression: one.MessageExpression})
		}
		filter := policies.checker.CompileCondition(validations, options, environment.NewExpressions)
		sentences := policies.checker.CompileCondition(messages, plugincel.OptionalVariableDeclarations{}, environment.NewExpressions)
		for name, problems := range map[string][]error{"validations": filter.CompilationErrors(), "messageExpressions": sentences.CompilationErrors()} {
			if len(problems) > 0 {
				return fmt.Errorf("%s: %s: %v", policy.Name, name, problems)
			}
		}
		policies.validator = validating.NewValidator(filter,
			matcherOf(policies.checker, policy.Spec.MatchConditions, *policy.Spec.FailurePolicy, options, policy.Name),
			policies.checker.CompileCondition(nil, options, environment.NewExpressions), sentences, policy.Spec.FailurePolicy, nil)
	}
	return nil
}

func attributes(pod *corev1.Pod) *admission.VersionedAttributes {
	return &admission.VersionedAttributes{
		Attributes:      admission.NewAttributesRecord(pod, nil, podKind, pod.Namespace, pod.Name, podResource, "", admission.Create, nil, false, nil),
		VersionedObject: pod, VersionedKind: podKind}
}

// Mutate gives the pod as the injecting policy leaves it.
func (policies *Policies) Mutate(pod *corev1.Pod) (*corev1.Pod, error) {
	if policies.mutating == nil {
		return pod, nil
	}
	ctx := policies.compiler.CreateContext(context.Background())
	match := policies.matcher.Match(ctx, attributes(pod), nil, nil)
	if match.Error != nil {
		return nil, match.Error
	}
	if !match.Matches {
		return pod, nil
	}
	for i, patcher := range policies.patchers {
		result, err := patcher.Patch(ctx, patch.Request{MatchedResource: podResource, VersionedAttributes: attributes(pod),
			ObjectInterfaces: admission.NewObjectInterfacesFromScheme(policies.scheme)}, celconfig.RuntimeCELCostBudget)
		if err != nil {
			return nil, fmt.Errorf("mutations[%d]: %w", i, err)
		}
		pod = result.(*corev1.Pod)
	}
	return pod, nil
}

// Refusal gives the sentence that kubectl would show; empty: the pod is admitted.
func (policies *Policies) Refusal(pod *corev1.Pod) (string, error) {
	if policies.validating == nil {
		return "", nil
	}
	ctx := policies.checker.CreateContext(context.Background())
	result := policies.validator.Validate(ctx, podResource, attributes(pod), nil, nil, celconfig.RuntimeCELCostBudget, nil)
	for _, decision := range result.Decisions {
		if decision.Action != validating.ActionDeny {
			continue
		}
		if decision.Evaluation != validating.EvalDeny {
			return "", fmt.Errorf("cannot be evaluated: %s", decision.Message)
		}
		if strings.HasPrefix(decision.Message, "failed expression") {
			return "", fmt.Errorf("no sentence: %s", decision.Message)
		}
		return decision.Message, nil
	}
	return "", nil
}

// Admit is what the API server does with a pod that is to be made: mutate until nothing changes, then validate.
func (policies *Policies) Admit(pod *corev1.Pod) (out *corev1.Pod, refusal string, err error) {
	out, err = policies.Mutate(pod)
	if err != nil {
		return nil, "", err
	}
	again, err := policies.Mutate(out)
	if err != nil {
		return nil, "", fmt.Errorf("second time: %w", err)
	}
	if text(again) != text(out) {
		return nil, "", fmt.Errorf("a second pass changes the pod:\n%s\nto\n%s", text(out), text(again))
	}
	refusal, err = policies.Refusal(out)
	return out, refusal, err
}

func text(value interface{}) string {
	bytes, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(bytes)
}
