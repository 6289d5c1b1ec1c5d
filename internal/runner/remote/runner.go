package remote

import (
	"context"

	"connectrpc.com/connect"

	runnerv1 "fleet/gen/fleet/runner/v1"
	"fleet/internal/fleet"
)

// Connect returns the runner of the agent. It makes no request.
func (c *Client) Connect(a fleet.Agent) fleet.Runner { return runner{c, a} }

// runner is a fleet.Runner over a network.
type runner struct {
	client *Client
	agent  fleet.Agent
}

// call calls the method, and repeats the call until the runner answers or was unreachable for too long.
func call[Req, Res any](ctx context.Context, w runner, method func(context.Context, *connect.Request[Req]) (*connect.Response[Res], error), req *Req) (res *Res, err error) {
	err = w.client.callWithRetry(ctx, w.agent, func(ctx context.Context) error {
		re, err := method(ctx, connect.NewRequest(req))
		if err == nil {
			res = re.Msg
		}
		return err
	})
	return res, err
}

// Dispatch implements fleet.Runner.
func (w runner) Dispatch(ctx context.Context, r fleet.Run) error {
	return w.client.callWithRetry(ctx, w.agent, func(ctx context.Context) error {
		if r.Options.IsSet() {
			err := w.client.checkSession(ctx, w.agent.UID, func(s *session) error { return s.checkOptions(r.Options) })
			if err != nil {
				return err
			}
		}
		_, err := w.client.rpc.Dispatch(ctx, connect.NewRequest(&runnerv1.DispatchRequest{Agent: agentToProto(w.agent), Run: runToProto(r)}))
		r.Again = true // a failed attempt may have reached the runner
		return err
	})
}

// Interrupt implements fleet.Runner.
func (w runner) Interrupt(ctx context.Context, r fleet.Run, kill bool) error {
	_, err := call(ctx, w, w.client.rpc.Interrupt, &runnerv1.InterruptRequest{Agent: agentToProto(w.agent), Run: runReference(r), Kill: kill})
	return err
}

// Send implements fleet.Runner.
func (w runner) Send(ctx context.Context, r fleet.Run, id, message string) error {
	_, err := call(ctx, w, w.client.rpc.Send, &runnerv1.SendRequest{Agent: agentToProto(w.agent), Run: runReference(r), MessageId: id, Text: message, Confirmed: r.Confirmed})
	return err
}

// Answer implements fleet.Runner.
func (w runner) Answer(ctx context.Context, r fleet.Run, q fleet.Question) error {
	_, err := call(ctx, w, w.client.rpc.Answer, &runnerv1.AnswerRequest{Agent: agentToProto(w.agent), Run: runReference(r), Question: questionToProto(q)})
	return err
}

// runReference returns a dispatched run with only the fields that calls after Dispatch need.
func runReference(r fleet.Run) *runnerv1.Run {
	return runToProto(fleet.Run{TaskID: r.TaskID, Timeout: r.Timeout, StartedAt: r.StartedAt, Linger: r.Linger})
}

// Follow implements fleet.Runner. After a broken stream it continues after the last output that sink accepted.
func (w runner) Follow(ctx context.Context, r fleet.Run, cursor string, sink func(fleet.Output) error) (fleet.Outcome, error) {
	var sinkErr error
	var outcome *fleet.Outcome
	req := &runnerv1.FollowRequest{Agent: agentToProto(w.agent), Run: runReference(r), Cursor: cursor, MaxWait: w.client.maxWait()}
	err := callStream(ctx, w.client, w.agent, w.client.rpc.Follow, req, func(m *runnerv1.FollowResponse) bool {
		switch e := m.GetEvent().(type) {
		case *runnerv1.FollowResponse_Output:
			out := outputFromProto(e.Output)
			if sinkErr = sink(out); sinkErr == nil && out.Cursor != "" { // a question has no cursor
				req.Cursor = out.Cursor
			}
		case *runnerv1.FollowResponse_Outcome:
			outcome = new(outcomeFromProto(e.Outcome))
		}
		return sinkErr != nil || outcome != nil
	})
	switch {
	case sinkErr != nil:
		return fleet.Outcome{}, sinkErr
	case err == nil:
		return *outcome, nil
	case fleet.ReasonOf(err) == fleet.ReasonTaskNotFound && req.GetCursor() != "": // the run existed before, because some of its output is known
		return fleet.Outcome{
			Status: fleet.TaskFailed, Reason: "the files of the run no longer exist: its agent was deleted, or its workspace was created again", ReasonCode: fleet.CodePlaceLost,
		}, nil
	}
	return fleet.Outcome{}, err
}
