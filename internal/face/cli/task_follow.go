package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	fleetv1 "fleet/gen/fleet/v1"
)

// monitor shows a running task on the screen until the task has ended.
type monitor struct {
	s          *session
	task       *fleetv1.Task
	progress   *progress
	ended      bool
	ruleFinder allowRuleFinder
	prompter   *prompter
}

// ctrlCMode is what Ctrl-C does while a command follows a task.
type ctrlCMode int

const (
	ctrlCDetaches  ctrlCMode = iota // it ends only the command; on a terminal, a second Ctrl-C soon after stops the task
	ctrlCStopsTask                  // it stops the task
)

// follow shows the task's output until the task has ended. It returns nil if the task completed, and an error if it ended otherwise.
func (s *session) follow(ctx context.Context, task *fleetv1.Task, mode ctrlCMode) error {
	m := &monitor{s: s, task: task}
	watchCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	presses := make(chan struct{}, 8)
	release := s.interrupts.setHandler(func() {
		select {
		case presses <- struct{}{}:
		default:
		}
		if mode == ctrlCDetaches {
			cancel(errInterrupted)
		}
	})
	defer release()

	s.note("%s works on task %s.", task.GetAgentName(), task.GetId())
	started := s.deps.Now()
	if t := task.GetStartedAt(); t != nil && t.AsTime().Before(started) {
		started = t.AsTime()
	}
	m.progress = s.startProgress(task.GetAgentName(), started)
	defer m.progress.stop()
	prompter, stopAsking := s.startPrompter(watchCtx, task.GetId())
	defer stopAsking()
	m.prompter = prompter

	if mode == ctrlCStopsTask {
		watchEnded := make(chan struct{})
		stopResult := make(chan error, 1)
		go func() { stopResult <- m.stopWhenPressed(watchCtx, presses, watchEnded, cancel) }()
		err := m.watch(watchCtx)
		close(watchEnded)
		if e := <-stopResult; e != nil && err == nil && !m.ended {
			err = e
		}
		if err != nil {
			return err
		}
		return m.reportEnd(ctx)
	}
	err := m.watch(watchCtx)
	switch {
	case errors.Is(err, errInterrupted) && ctx.Err() == nil:
		m.progress.stop()
		return m.onInterrupt(ctx, presses)
	case err != nil:
		return err
	}
	return m.reportEnd(ctx)
}

// watch shows the events of the task until the task has ended. If the server cannot be reached, the error names the command that follows the
// task again.
func (m *monitor) watch(ctx context.Context) error {
	feed := m.s.newEventFeed(&fleetv1.WatchFleetRequest{TaskId: m.task.GetId(), Follow: true, Details: true})
	feed.responded = true // the server has just answered, so transient errors are retried
	errEnded := errors.New("ended")
	err := feed.run(ctx, func(e *fleetv1.Event) error {
		m.show(e)
		if m.ended {
			return errEnded
		}
		if err := m.s.screen.firstWriteErr(); err != nil {
			return Fail(ExitError, "the task goes on: fleet task wait "+m.task.GetId(), "cannot write to standard output: %v", err)
		}
		return nil
	}, m.s.hasEndedFunc(ctx, m.task.GetId()))
	switch {
	case errors.Is(err, errEnded):
		return nil
	case err != nil && ctx.Err() == nil:
		f := m.s.explain(ctx, err, m.s.target)
		if f.code == ExitUnavailable {
			return Fail(ExitUnavailable, fmt.Sprintf("the task may go on; to follow it again: fleet watch --task %s --cursor %s --follow",
				m.task.GetId(), cmp.Or(feed.req.GetCursor(), "0")), "%s", f.message)
		}
	}
	return err
}

// show prints one event: a task's output on standard output, everything else on standard error. If standard output is for a document, output
// goes to standard error too.
func (m *monitor) show(e *fleetv1.Event) {
	s, text := m.s, strings.TrimRight(e.GetText(), "\r\n")
	activity := text
	switch e.GetType() {
	case fleetv1.Event_task_output:
		if s.output.forPeople() {
			s.screen.printPart(e.GetText())
		} else { // standard output is for the document
			s.note("%s", text)
		}
	case fleetv1.Event_task_started:
		if s.verbose {
			s.printEventLines("started", cyan)
		}
	case fleetv1.Event_task_ended:
		m.ended = true
	case fleetv1.Event_task_message:
		activity = ""
	case fleetv1.Event_task_question:
		activity = "waiting for an answer"
	case fleetv1.Event_task_stopping:
		activity = "stopping"
	}
	m.progress.addCost(e.GetStep().GetUsage().GetCostUsd())
	lines, c := s.eventLines(e)
	if lines == "" {
		return
	}
	if activity != "" && e.GetType() != fleetv1.Event_task_detail {
		m.progress.setLabel(m.task.GetAgentName() + ": " + activity)
	}
	s.printEventLines(lines, c)
	m.prompter.handleEvent(s, e)
	if rule := m.ruleFinder.handleEvent(e); rule != "" {
		s.hint("To allow this, add %q to allowed_tools of the agent's role.", rule)
	}
}

// reportEnd prints how the task ended. It returns an error unless the task completed. After Ctrl-C, the task may still run.
func (m *monitor) reportEnd(ctx context.Context) error {
	m.progress.stop()
	s := m.s
	resp, err := s.fleet.ShowTask(ctx, &fleetv1.ShowTaskRequest{TaskId: m.task.GetId()})
	if err != nil {
		return err
	}
	t := resp.GetTask()
	if !hasEnded(t.GetStatus()) {
		return &failure{
			code: ExitInterrupted, reason: "INTERRUPTED", message: fmt.Sprintf("the task %s is being stopped and has not ended", t.GetId()),
			hint:    "wait for its end: fleet task wait " + t.GetId(),
			details: map[string]any{"task_id": t.GetId(), "agent_name": t.GetAgentName()},
		}
	}
	if !s.output.forPeople() {
		if err := s.print(resp, nil, nil); err != nil {
			return err
		}
	} else if t.GetStatus() == fleetv1.Task_completed && !s.quiet {
		line := "Completed in " + s.elapsedText(t.GetStartedAt(), t.GetCompletedAt())
		if c := costText(t.GetCostUsd()); c != "" {
			line += " for " + c
		}
		if t.GetSummary() != "" {
			line += ": " + t.GetSummary()
		}
		s.screen.printErrLine(paint(s.screen.colors, green, printable(line)))
		if t.GetPayloadSize() > 0 {
			what := "The whole result"
			if t.GetPayloadGapSize() > 0 {
				what = "Its beginning and its end"
			}
			s.hint("%s (%s): fleet task show %s --payload", what, sizeText(t.GetPayloadSize()), t.GetId())
		}
		if c := t.GetChanges(); c.GetFiles() > 0 || c.GetCommits() > 0 {
			s.hint("Changed %s. Review it: fleet task diff %s", changesText(c), shortID(t.GetId()))
		}
	}
	if t.GetFromTerminal() {
		s.hint("The result was read from %s.", terminalNote)
	}
	if err := s.screen.firstWriteErr(); err != nil {
		return err
	}
	return newEndError(t)
}
