package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fleetv1 "fleet/gen/fleet/v1"
)

// defaultWait is how long a command waits for an agent by default. A workspace can take minutes to start.
const defaultWait = 10 * time.Minute

// minCallTime is the minimum interval between two calls that wait for an agent, and the minimum timeout of such a call. The
// server usually takes much longer to answer.
const minCallTime = time.Second

// waitFlag is the value of --wait: how long a command waits until its request is finished.
type waitFlag struct{ limit time.Duration }

func (w *waitFlag) addTo(cmd *cobra.Command, targetState string) {
	cmd.Flags().DurationVar(&w.limit, "wait", defaultWait, "wait at most `DURATION` until the agent is "+targetState)
}

// repeatUntilFinished makes a call that changes an agent, and repeats it until it is finished. The server waits for a limited
// time, and then responds that the call is unfinished. A repeated call only continues to wait, because it has the same
// request_id. After the limit, repeatUntilFinished returns newTimeoutError(), even during a call,
// except that each call gets at least minCallTime. Any other error of a call ends the repetition.
func (s *session) repeatUntilFinished(ctx context.Context, w waitFlag, call func(context.Context) (unfinished bool, err error), newTimeoutError func() error) error {
	deadline := s.deps.Now().Add(w.limit)
	for {
		started := s.deps.Now()
		limitedCtx, cancel := context.WithTimeout(ctx, max(deadline.Sub(started), minCallTime))
		unfinished, err := call(limitedCtx)
		timedOut := limitedCtx.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case err != nil && timedOut:
			return newTimeoutError()
		case status.Code(err) == codes.DeadlineExceeded && ctx.Err() == nil: // the server has seen the deadline first
		case err != nil || !unfinished:
			return err
		}
		left := deadline.Sub(s.deps.Now())
		if left <= 0 {
			return newTimeoutError()
		}
		if err := sleep(ctx, min(left, max(0, minCallTime-s.deps.Now().Sub(started)))); err != nil {
			return err
		}
	}
}

// newNotReadyError returns the error for an agent that has not reached targetState, for example "ready", within the time of --wait. a is the
// agent of the last response. If it is nil, because no call has ended, newNotReadyError asks the server for the agent. The user can continue to
// wait with command.
func (s *session) newNotReadyError(ctx context.Context, a *fleetv1.Agent, name, targetState, command string) error {
	if a == nil {
		resp, err := s.fleet.ShowAgent(ctx, &fleetv1.ShowAgentRequest{AgentName: name})
		if err != nil {
			return err
		}
		a = resp.GetAgent()
	}
	state := a.GetState().String()
	if a.GetStateReason() != "" {
		state += ": " + strings.TrimRight(printable(a.GetStateReason()), ". ")
	}
	return &failure{
		code: ExitTimeout, reason: "TIMED_OUT", message: fmt.Sprintf("%s is not %s yet, its workspace is %s", printable(a.GetName()), targetState, state),
		hint: fmt.Sprintf("keep waiting with %q", command), details: map[string]any{"agent_name": a.GetName(), "state": a.GetState().String()},
	}
}
