package agentapi

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode"

	"fleet/internal/fleet"
)

// begun waits until the agent has begun the run by itself. What an agent that rests has not begun it will not begin: it
// is not given it either, because then it might get it twice.
func (all *Runners) begun(ctx context.Context, a fleet.Agent, r fleet.Run, at Workspace, api *client) error {
	t := all.runs.of(r.TaskID)
	rests, misses := 0, 0
	for {
		v, err := api.look(ctx)
		switch {
		case err != nil:
			if misses++; misses >= maxMisses {
				return notTaken(a, err)
			}
			if err := all.missed(ctx, a, at, err); err != nil {
				return err
			}
			continue
		case all.locate(v, a, r, t) >= 0:
			return nil
		case v.status == statusStable:
			if rests++; rests > maxRests {
				return fleet.Errorf(fleet.ReasonTaskNotFound,
					"the agent %q has not begun to work on its spec by itself: its template does not give it to AgentAPI; set spec_is_task to false for the project", a.Name)
			}
		}
		if err := all.config.Wait(ctx, settlePause); err != nil {
			return err
		}
	}
}

// maxRests is how often an agent that is to begin by itself may be seen at rest before that: for 15 seconds.
const maxRests = 50

// showPrompt puts the prompt into a conversation that does not have it as a message, because the agent was started with
// it on its command line: when the screen that the agent began with shows it. It says whether the conversation has it.
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

// How many letters of a prompt must be on the screen for it to be the prompt.
const minShown, maxShown = 12, 80

// shownID is the id of a message that AgentAPI does not have, and shownAt its time: before anything that was said.
const shownID = -1

var shownAt = time.Unix(1, 0)

// letters is the text without all that a screen breaks it with.
func letters(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, s)
}
