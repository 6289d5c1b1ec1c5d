package service

import (
	"context"
	"fmt"
	"time"

	"fleet/internal/fleet"
)

// AttachRequest describes a person's terminal, and names the agent to which it is connected.
type AttachRequest struct {
	Agent         string
	Term          string // type of the terminal, for the variable TERM
	Columns, Rows uint16
}

// attachStopTimeout limits how long Attach takes to request the stop of a task whose terminal was disconnected.
const attachStopTimeout = 5 * time.Second

// Attach connects the caller's terminal with the program of an idle agent, in the agent's conversation. This is a task of the
// agent, so the agent is busy meanwhile. onStart gets the task before the first output. The task ends when the caller leaves
// the program, input is closed, ctx is done or output fails. Attach returns the ended task. If the connection fails, it requests the
// stop of the task and returns the error.
func (s *Service) Attach(
	ctx context.Context, r AttachRequest, input <-chan fleet.TerminalInput, onStart func(*fleet.Task) error, output func([]byte) error,
) (*fleet.Task, error) {
	task, v, err := s.startTerminalTask(ctx, r)
	if err != nil {
		return nil, err
	}
	fleet.ReleaseSlot(ctx)
	if err = onStart(task); err == nil {
		err = s.connectTerminal(ctx, v, task, input, output)
	}
	if err != nil {
		p, _ := fleet.PrincipalFrom(ctx)
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), attachStopTimeout)
		defer cancel()
		const reason = "its terminal was disconnected"
		if err := s.requestTaskStopFor(stopCtx, p, task.ID, reason, reason); err != nil {
			s.log.WarnContext(ctx, "task of a disconnected terminal not stopped, its host stops it", "task", task.ID, "error", err)
		}
		return nil, err
	}
	return s.FollowTask(ctx, task.ID, 0, nil)
}

// startTerminalTask starts the task of Attach.
func (s *Service) startTerminalTask(ctx context.Context, r AttachRequest) (*fleet.Task, *fleet.AgentView, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, nil, err
	}
	terminal := &fleet.AttachedTerminal{By: p.Name, Type: r.Term, Columns: r.Columns, Rows: r.Rows}
	if err := terminal.Validate(); err != nil {
		return nil, nil, err
	}
	v, _, err := s.agent(ctx, r.Agent, fleet.AccessOwn)
	if err != nil {
		return nil, nil, err
	}
	var task *fleet.Task
	err = s.store.Update(ctx, func(tx fleet.Tx) (err error) {
		if v, err = agentForUpdate(tx, p, v, fleet.AccessOwn); err != nil {
			return err
		}
		if a := &v.Agent; a.Toolset != fleet.ToolsetFleet {
			return fleet.Errorf(fleet.ReasonUnimplemented, "agent %q belongs to the toolset %s, and only the toolset gives it work", a.Name, a.Toolset)
		}
		if err := fleet.CheckAttach(s.places.Of(&v.Agent).Place, v.Agent); err != nil {
			return err
		}
		task, err = s.startTask(ctx, tx, p, v, StartTaskRequest{
			Description: fmt.Sprintf("%s uses the program on a terminal", p.Name), Options: fleet.TaskOptions{Attached: terminal},
		})
		return err
	})
	return task, v, err
}

// connectTerminal connects the terminal with the task's run. It returns nil if the task has ended while ctx was not done.
func (s *Service) connectTerminal(ctx context.Context, v *fleet.AgentView, task *fleet.Task, input <-chan fleet.TerminalInput, output func([]byte) error) error {
	runCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan struct{})
	go func() { // the run of a task that its agent has refused never begins
		defer close(ended)
		if _, err := s.FollowTask(runCtx, task.ID, 0, nil); err == nil {
			cancel()
		}
	}()
	run := task.Run()
	run.Again = false // the task was started a moment ago, by this call
	err := fleet.Attach(runCtx, s.places.Of(&v.Agent).Place, v.Agent, run, input, output)
	taskEnded := runCtx.Err() != nil && ctx.Err() == nil
	cancel()
	<-ended
	if taskEnded {
		return nil
	}
	return err
}
