package fake

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"fleet/internal/fleet"
)

// runner runs the tasks of one agent.
type runner struct {
	place *Place
	agent fleet.Agent
}

// Connect implements fleet.Place.
func (p *Place) Connect(a fleet.Agent) fleet.Runner { return runner{p, a} }

// Dispatch starts the run, or claims the run that the agent has started by itself. A repeated call does nothing.
func (r runner) Dispatch(ctx context.Context, run fleet.Run) error {
	p, a := r.place, r.agent
	return p.callLocked(ctx, Call{Method: Dispatch, Agent: a, TaskID: run.TaskID, FleetEndpoint: run.FleetEndpoint, Run: &run}, func() error {
		p.dispatchCounts[run.TaskID]++
		if p.runs[run.TaskID] != nil {
			return nil
		}
		w := p.workspaceOf(a)
		if w == nil {
			return fleet.Errorf(fleet.ReasonAgentOffline, "agent %q has no workspace", a.Name)
		}
		p.finishBuild(w)
		if w.State != fleet.StateRunning {
			return fleet.Errorf(fleet.ReasonAgentOffline, "the workspace of agent %q is %s: start the agent first", a.Name, w.State)
		}
		if run.SelfStarted {
			return p.claimRun(w, run)
		}
		if w.busy() {
			return fleet.Errorf(fleet.ReasonAgentBusy, "agent %q is busy with another task: wait for it, or stop it", a.Name)
		}
		added := p.startRun(w, run)
		for _, a := range run.Attachments {
			p.addStep(added, fmt.Sprintf("attached %s (%s): %s", a.Name, a.MediaType, a.Content), nil)
		}
		return nil
	})
}

// Follow passes on the outputs of the run until it ends. The outputs remain available after the workspace was deleted.
func (r runner) Follow(ctx context.Context, run fleet.Run, cursor string, sink func(fleet.Output) error) (o fleet.Outcome, err error) {
	p, a := r.place, r.agent
	err = p.callPort(ctx, Call{Method: Follow, Agent: a, TaskID: run.TaskID}, func() error {
		found, next, err := p.runFromCursor(a, run, cursor)
		if err != nil {
			return err
		}
		lastSent := map[string]fleet.QuestionStatus{} // the last status of each question that the sink has received
		// sendQuestions sends the questions that wait for an answer, or the others, if their status has changed.
		sendQuestions := func(all []fleet.Question, waiting bool) error {
			for _, q := range all {
				if lastSent[q.ID] == q.Status || waiting != (q.Status == fleet.QuestionWaiting) {
					continue
				}
				lastSent[q.ID] = q.Status
				if err := sink(fleet.Output{Question: &q}); err != nil {
					return err
				}
			}
			return nil
		}
		for {
			outputs, questions, ended, changed := p.viewFrom(found, next)
			if err := sendQuestions(questions, false); err != nil {
				return err
			}
			for _, out := range outputs {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := sink(out); err != nil {
					return err
				}
				next++
			}
			if err := sendQuestions(questions, true); err != nil { // new questions come after the outputs that were printed before them
				return err
			}
			if ended {
				o = p.outcomeOf(found)
				return nil
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	return o, err
}

// runFromCursor returns the run, and the number of its outputs up to and including the output with the cursor.
func (p *Place) runFromCursor(a fleet.Agent, task fleet.Run, cursor string) (*run, int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, err := p.findRun(a, task)
	if err != nil || cursor == "" {
		return r, 0, err
	}
	n, err := strconv.Atoi(cursor)
	if err != nil || n < 1 || n > len(r.outputs) {
		return nil, 0, fmt.Errorf("fake: run %s has no cursor %q", task.TaskID, cursor)
	}
	return r, n, nil
}

// Interrupt ends the run as stopped, unless the script of the run ignores the interrupt or the kill. It always stops the checks of
// the run.
func (r runner) Interrupt(ctx context.Context, run fleet.Run, kill bool) error {
	p, a := r.place, r.agent
	return p.callLocked(ctx, Call{Method: Interrupt, Agent: a, TaskID: run.TaskID, Kill: kill}, func() error {
		found, err := p.findRun(a, run)
		if err != nil {
			return err
		}
		found.stopChecks()
		switch {
		case kill && found.script.ignoreKill:
			p.addOutput(found, "kill ignored")
		case !kill && found.script.ignoreInterrupt:
			p.addOutput(found, "interrupt ignored")
		case kill:
			p.endRun(found, fleet.Outcome{Status: fleet.TaskStopped, Reason: "it was killed"})
		default:
			p.endRun(found, fleet.Outcome{Status: fleet.TaskStopped, Reason: "it was interrupted"})
		}
		return nil
	})
}

// Send sends a message to the run. The instruction listen reads it. A repeated id sends nothing.
func (r runner) Send(ctx context.Context, run fleet.Run, id, message string) error {
	p, a := r.place, r.agent
	return p.callLocked(ctx, Call{Method: Send, Agent: a, TaskID: run.TaskID}, func() error {
		if p.config.NoMessages {
			return fleet.Errorf(fleet.ReasonUnimplemented, "agent %q cannot take messages while it works: wait for its task to end, then start another one", a.Name)
		}
		found, err := p.findRun(a, run)
		if err != nil {
			return err
		}
		if found.messageIDs[id] {
			return nil
		}
		if found.ended() {
			return fleet.Errorf(fleet.ReasonNoRunningTask, "the task of agent %q has ended: start another one", a.Name)
		}
		found.messageIDs[id] = true
		found.messages = append(found.messages, message)
		found.wake()
		return nil
	})
}

// Answer implements fleet.Runner. A repeated answer returns nil.
func (r runner) Answer(ctx context.Context, run fleet.Run, q fleet.Question) error {
	p, a := r.place, r.agent
	return p.callLocked(ctx, Call{Method: Answer, Agent: a, TaskID: run.TaskID}, func() error {
		if p.config.NoQuestions {
			return fleet.Errorf(fleet.ReasonUnimplemented, "agent %q asks no questions", a.Name)
		}
		found, err := p.findRun(a, run)
		if err != nil {
			return err
		}
		n := slices.IndexFunc(found.questions, func(asked fleet.Question) bool { return asked.ID == q.LocalID() })
		switch {
		case n < 0:
			return fleet.Errorf(fleet.ReasonQuestionNotFound, "agent %q never asked the question %s", a.Name, q.ID)
		case found.questions[n].Status == fleet.QuestionAnswered:
			return nil
		case found.ended():
			return fleet.Errorf(fleet.ReasonNoRunningTask, "the task of agent %q has ended", a.Name)
		case found.questions[n].Status != fleet.QuestionWaiting:
			return fleet.Errorf(fleet.ReasonQuestionClosed, "agent %q no longer waits for the answer", a.Name)
		}
		asked := &found.questions[n]
		asked.Status, asked.Answer, asked.Message, asked.AnsweredBy, asked.AnsweredAt = fleet.QuestionAnswered, q.Answer, q.Message, q.AnsweredBy, q.AnsweredAt
		found.wake()
		return nil
	})
}

// findRun returns the run of the task. It returns TASK_NOT_FOUND if the task was not dispatched. The world's mutex must be
// held.
func (p *Place) findRun(a fleet.Agent, r fleet.Run) (*run, error) {
	if found := p.runs[r.TaskID]; found != nil {
		return found, nil
	}
	return nil, fleet.Errorf(fleet.ReasonTaskNotFound, "agent %q has no task %s", a.Name, r.TaskID)
}

// Output returns a page of the run's output. A negative offset counts from the end.
func (r runner) Output(ctx context.Context, run fleet.Run, offset int64, limit int) (page fleet.OutputPage, err error) {
	p := r.place
	err = p.callLocked(ctx, Call{Method: Output, Agent: r.agent, TaskID: run.TaskID}, func() error {
		if !p.config.Traits.SupportsOutput {
			return fleet.Errorf(fleet.ReasonUnimplemented, "the output of agent %q is not kept", r.agent.Name)
		}
		found, err := p.findRun(r.agent, run)
		if err != nil {
			return err
		}
		if found.workspace.State == fleet.StateDeleted {
			return fleet.Errorf(fleet.ReasonOutputNotFound, "the output of the task %s was deleted with its agent", run.TaskID)
		}
		var all []byte
		for _, out := range found.outputs {
			all = append(append(all, out.Text...), '\n')
		}
		page.Size = int64(len(all))
		if offset < 0 {
			offset = max(0, page.Size+offset)
		}
		page.Offset = min(offset, page.Size)
		page.Data = all[page.Offset:min(page.Size, page.Offset+int64(limit))]
		return nil
	})
	return page, err
}

// Bundle writes the lines that scripts have added in the workspace, as "PATH LINE", instead of a bundle.
func (r runner) Bundle(ctx context.Context, out io.Writer) error {
	p := r.place
	return p.callPort(ctx, Call{Method: Bundle, Agent: r.agent}, func() error {
		if !p.config.Traits.SupportsBundles {
			return fleet.Errorf(fleet.ReasonUnimplemented, "agent %q does not support bundles", r.agent.Name)
		}
		p.mu.Lock()
		text := ""
		ws := p.workspaceOf(r.agent)
		if ws != nil {
			text = strings.Join(ws.addedLines, "")
		} else if p.config.Traits.KeepsWork {
			text = p.workOfDeleted[r.agent.UID]
		}
		p.mu.Unlock()
		switch {
		case ws == nil && !p.config.Traits.KeepsWork:
			return fleet.Errorf(fleet.ReasonAgentOffline, "the workspace of agent %q was deleted", r.agent.Name)
		case ws != nil && ws.State != fleet.StateRunning:
			return fleet.Errorf(fleet.ReasonAgentOffline, "the workspace of agent %q is %s", r.agent.Name, ws.State)
		}
		_, err := io.WriteString(out, text)
		return err
	})
}
