package coder

import "slices"

// promptParameters are parameters whose name says that they hold the prompt with which an agent starts.
var promptParameters = []string{"AI Prompt", "ai_prompt"}

// begins reports whether an agent of the template starts to work on its specification without being told.
func (s Settings) begins(v *version) bool {
	spec := s.spec(v)
	if spec == nil || s.SpecIsTask != nil {
		return spec != nil && *s.SpecIsTask
	}
	return slices.Contains(promptParameters, spec.Name)
}
