package coder

import "slices"

// promptParameters are names of parameters that usually hold an agent's first prompt.
var promptParameters = []string{"AI Prompt", "ai_prompt"}

// startsItself reports whether an agent of the template starts to work on its specification by itself.
func (s Settings) startsItself(v *version) bool {
	spec := s.findSpecParameter(v)
	if spec == nil || s.SpecIsTask != nil {
		return spec != nil && *s.SpecIsTask
	}
	return slices.Contains(promptParameters, spec.Name)
}
