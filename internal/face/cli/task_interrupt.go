package cli

import (
	"context"
	"fmt"
	"time"

	fleetv1 "fleet/gen/fleet/v1"
)

// onInterrupt is called when Ctrl-C has ended the watch of the task. It returns an error that says how to follow the task later. If standard
// error is a terminal, a second Ctrl-C within secondPressTime stops the task, and onInterrupt reports its end instead, or that it has not ended
// yet. A third Ctrl-C cancels the request to stop the task.
func (m *monitor) onInterrupt(ctx context.Context, presses <-chan struct{}) error {
	s := m.s
	errDetached := &failure{
		code: ExitInterrupted, reason: "INTERRUPTED",
		message: fmt.Sprintf("no longer following; the task %s goes on", m.task.GetId()),
		hint: fmt.Sprintf("follow it: fleet watch --task %s --follow, or stop it: fleet task stop %s",
			m.task.GetId(), s.ref(m.task.GetAgentName(), m.task.GetOwner())),
		details: map[string]any{"task_id": m.task.GetId(), "agent_name": m.task.GetAgentName()},
	}
	<-presses // the first Ctrl-C
	if !s.screen.errTerminal.isTerminal() {
		return errDetached
	}
	s.screen.printErrLine(printable(fmt.Sprintf("Ctrl-C again within %s stops the task too.", longDuration(s.deps.secondPressTime))))
	select {
	case <-time.After(s.deps.secondPressTime):
		return errDetached
	case <-presses:
	}
	s.note("Stopping the task ...")
	stopCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-presses: // a third Ctrl-C
			cancel(errDetached)
		case <-stopCtx.Done():
		}
	}()
	if err := m.stop(stopCtx); err != nil {
		if stopCtx.Err() != nil {
			return context.Cause(stopCtx)
		}
		return err
	}
	return m.reportEnd(ctx)
}

// stopWhenPressed stops the task at the first Ctrl-C. At a second one, or if the task cannot be stopped, it calls giveUp, which
// ends the watch of the task, and returns the reason. Otherwise it returns nil when the watch has ended.
func (m *monitor) stopWhenPressed(ctx context.Context, presses <-chan struct{}, watchEnded <-chan struct{}, giveUp context.CancelCauseFunc) error {
	select {
	case <-watchEnded:
		return nil
	case <-presses:
	}
	m.s.note("Stopping the task ...")
	stopResult := make(chan error, 1)
	go func() { stopResult <- m.stop(ctx) }()
	select {
	case err := <-stopResult:
		if err != nil {
			giveUp(err)
			return err
		}
	case <-presses:
		giveUp(errInterrupted)
		<-stopResult //nolint:errcheck // the caller has given up, so the result no longer matters
		return errInterrupted
	}
	select { // the server has answered, and the task may still run
	case <-watchEnded:
		return nil
	case <-presses:
		giveUp(errInterrupted)
		return errInterrupted
	}
}

// stop stops the task, unless it has ended. It returns when the server answers, which may be before the task has ended.
func (m *monitor) stop(ctx context.Context) error {
	_, err := m.s.fleet.StopTask(ctx, &fleetv1.StopTaskRequest{TaskId: m.task.GetId()})
	return err
}
