package runner

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/place/agentfile"
	"fleet/internal/runner/acp"
	"fleet/internal/runner/driver"
	"fleet/internal/runner/shim"
)

// askFile is the program in the run's directory that scripts call to ask questions.
const askFile = "ask"

// questionConfig returns the configuration of the run's questions, or nil if the run cannot ask questions.
func questionConfig(w Work, r fleet.Run) *shim.QuestionConfig {
	p := w.Job.Role.Permissions
	if p == nil || r.Options.Attached != nil {
		return nil
	}
	return &shim.QuestionConfig{Rules: acp.Rules{Allow: slices.Concat(p.Allow, r.AllowedRules), Deny: p.Deny, Ask: p.Ask}, Timeout: p.QuestionTimeout()}
}

// askScript returns a script that runs the command with the script's arguments. The command calls question.Main for the run.
func askScript(command []string) driver.File {
	var words []string
	for _, word := range command {
		words = append(words, "'"+strings.ReplaceAll(word, "'", `'\''`)+"'")
	}
	return driver.File{Name: askFile, Data: "#!/bin/sh\nexec " + strings.Join(words, " ") + ` "$@"` + "\n", Executable: true}
}

// Answer implements fleet.Runner.
func (a Agent) Answer(ctx context.Context, r fleet.Run, q fleet.Question) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	run := a.home.run(r.TaskID)
	errEnded := fleet.Errorf(fleet.ReasonNoRunningTask, "the task of agent %q has ended", a.name)
	if _, err := run.Spec(); isMissing(err) || errors.Is(err, agentfile.ErrReplaced) {
		return errEnded
	}
	err := run.Answer(ctx, q.LocalID(), q.Answer, q.Message, q.AnsweredBy, q.Remembered())
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, shim.ErrUnknownQuestion):
		return fleet.Errorf(fleet.ReasonQuestionNotFound, "the agent %q never asked the question %s", a.name, q.ID)
	case errors.Is(err, shim.ErrQuestionClosed):
		return fleet.Errorf(fleet.ReasonQuestionClosed, "the agent %q no longer waits for the answer", a.name)
	case !errors.Is(err, shim.ErrEnded) && !os.IsNotExist(err):
		return HostError("cannot send the answer", err)
	}
	exit, err := run.Settle()
	switch {
	case err != nil:
		return HostError("cannot read the run's end", err)
	case exit == nil:
		return fleet.Errorf(fleet.ReasonBackendUnavailable, "the run's supervisor does not answer: try again")
	}
	j := journalReader{run: run}
	all, err := j.read()
	for _, known := range all {
		if known.ID == q.LocalID() && known.Status == fleet.QuestionAnswered {
			return nil
		}
	}
	if err != nil {
		return err
	}
	return errEnded
}

// readQuestions returns the questions that have changed: those that no longer wait for an answer, and those that wait.
func (f *follower) readQuestions() (closed, waiting []fleet.Question, err error) {
	all, err := f.questions.read()
	for _, q := range all {
		if q.Status == fleet.QuestionWaiting {
			waiting = append(waiting, q)
		} else {
			closed = append(closed, q)
		}
	}
	return closed, waiting, err
}

// passQuestions passes the questions to the sink.
func (f *follower) passQuestions(questions []fleet.Question) error {
	for _, q := range questions {
		if err := f.sink(fleet.Output{Question: &q}); err != nil {
			return err
		}
	}
	return nil
}
