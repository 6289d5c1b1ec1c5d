package coder

import "slices"

// promptParameters are the parameters that are by their names the prompt that an agent is started with.
var promptParameters = []string{"AI Prompt", "ai_prompt"}

// begins reports whether an agent of the template begins to work on its specification as soon as it is there.
func (s Settings) begins(v *version) bool {
	spec := s.spec(v)
	if spec == nil || s.SpecIsTask != nil {
		return spec != nil && *s.SpecIsTask
	}
	return slices.Contains(promptParameters, spec.Name)
}
