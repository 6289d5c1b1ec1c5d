package driver

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWithFeedback(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		driver Driver
		job    Job
		want   string
	}{
		"without feedback":           {&commandDriver{}, Job{Prompt: "do"}, "do"},
		"with a conversation":        {&commandDriver{}, Job{Prompt: "do", Session: "s", Feedback: "no"}, "no"},
		"without a conversation":     {&commandDriver{}, Job{Prompt: "do", Feedback: "no"}, "do\n\nno"},
		"a script can read the file": {shell{}, Job{Prompt: "do", Feedback: "no"}, "do"},
		"a script with conversation": {shell{}, Job{Prompt: "do", Session: "s", Feedback: "no"}, "do"},
	} {
		require.Equal(t, tc.want, WithFeedback(tc.driver, tc.job).Prompt, name)
	}
}
