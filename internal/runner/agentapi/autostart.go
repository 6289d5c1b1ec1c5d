package agentapi

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode"

	"fleet/internal/fleet"
)

// waitStarted waits until the agent has started the run by itself. If the agent stays idle, waitStarted returns TASK_NOT_FOUND. It
// does not send the prompt, because the agent might then get the prompt twice.
func (runners *Runners) waitStarted(ctx context.Context, a fleet.Agent, r fleet.Run, workspace Workspace, api *client) error {
	t := runners.transcripts.getOrCreate(r.TaskID)
	rests, failures := 0, 0
	for {
		v, err := api.readView(ctx)
		switch {
		case err != nil:
			if failures++; failures >= maxFailures {
				return notAcceptedError(a, err)
			}
			if err := runners.waitAfterFailure(ctx, a, workspace, err); err != nil {
				return err
			}
			continue
		case runners.locate(v, a, r, t) >= 0:
			return nil
		case v.status == statusStable:
			if rests++; rests > maxIdleChecks {
				return fleet.Errorf(fleet.ReasonTaskNotFound,
					"the agent %q has not begun to work on its spec by itself, because its template does not pass the spec to AgentAPI: set spec_is_task to false for the project", a.Name)
			}
		}
		if err := runners.config.Wait(ctx, idlePollPause); err != nil {
			return err
		}
	}
}

// maxIdleChecks is how many checks may find the agent idle before waitStarted gives up. These checks take about 15 seconds.
const maxIdleChecks = 50

// showPrompt reports whether the conversation begins with the prompt. An agent that got the prompt on its command line
// has no message with it. If the first screen of such an agent shows the prompt, showPrompt adds the message.
func (v *view) showPrompt(prompt string) bool {
	prompt = typedText(prompt)
	if prompt == "" || len(v.messages) == 0 {
		return false
	}
	for _, m := range v.messages {
		if m.Role == roleUser {
			return m.Content == prompt
		}
	}
	first, begin := v.messages[0], []rune(letters(prompt))
	if len(begin) < minShown || !strings.Contains(letters(first.Content), string(begin[:min(len(begin), maxShown)])) {
		return false
	}
	v.messages = slices.Insert(slices.Clone(v.messages), 0, message{ID: shownMessageID, Role: roleUser, Content: prompt, Time: shownMessageTime})
	return true
}

// The screen must show the first maxShown letters of a prompt, or all letters of a shorter prompt. A prompt with fewer
// letters than minShown is not looked for.
const minShown, maxShown = 12, 80

// shownMessageID is the id of the message that showPrompt adds. shownMessageTime is the time of that message, before all other
// messages.
const shownMessageID = -1

var shownMessageTime = time.Unix(1, 0)

// letters returns only the letters and digits of the text, because a screen may insert other characters.
func letters(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, s)
}
