package coder

import "slices"

// promptParameters are names of parameters that usually hold an agent's first prompt.
var promptParameters = []string{"AI Prompt", "ai_prompt"}

// begins reports whether an agent of the template starts to work on its specification by itself.
func (s Settings) begins(v *version) bool {
	spec := s.spec(v)
	if spec == nil || s.SpecIsTask != nil {
		return spec != nil && *s.SpecIsTask
	}
	return slices.Contains(promptParameters, spec.Name)
}
