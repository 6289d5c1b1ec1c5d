package agentapi

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode"

	"fleet/internal/fleet"
)

// begun waits until the agent has started the run by itself. An agent that stays idle will not start it. begun then returns
// an error. It does not send the prompt, because the agent might get it twice.
func (runners *Runners) begun(ctx context.Context, a fleet.Agent, r fleet.Run, workspace Workspace, api *client) error {
	t := runners.runs.of(r.TaskID)
	rests, failures := 0, 0
	for {
		v, err := api.look(ctx)
		switch {
		case err != nil:
			if failures++; failures >= maxFailures {
				return notAccepted(a, err)
			}
			if err := runners.afterFailure(ctx, a, workspace, err); err != nil {
				return err
			}
			continue
		case runners.locate(v, a, r, t) >= 0:
			return nil
		case v.status == statusStable:
			if rests++; rests > maxIdleChecks {
				return fleet.Errorf(fleet.ReasonTaskNotFound,
					"the agent %q has not begun to work on its spec by itself: its template does not give it to AgentAPI; set spec_is_task to false for the project", a.Name)
			}
		}
		if err := runners.config.Wait(ctx, settlePause); err != nil {
			return err
		}
	}
}

// maxIdleChecks is how many checks may find the agent idle before begun gives up: 15 seconds of checks.
const maxIdleChecks = 50

// showPrompt adds the prompt to a conversation that does not contain it as a message, because the agent got it on its
// command line. It does so if the agent's first screen shows the prompt. It reports whether the conversation has the
// prompt.
func (v *view) showPrompt(prompt string) bool {
	prompt = typed(prompt)
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
	v.messages = slices.Insert(slices.Clone(v.messages), 0, message{ID: shownID, Role: roleUser, Content: prompt, Time: shownAt})
	return true
}

// Range of the number of letters of a prompt that must be on the screen.
const minShown, maxShown = 12, 80

// shownID is the id of a message that AgentAPI does not have, and shownAt is its time, before all messages.
const shownID = -1

var shownAt = time.Unix(1, 0)

// letters returns the text without everything that a screen may insert.
func letters(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, s)
}
