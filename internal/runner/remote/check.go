package remote

import (
	"context"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	runnerv1 "fleet/gen/fleet/runner/v1"
	"fleet/internal/fleet"
)

// Check implements the service.
func (s *Server) Check(ctx context.Context, req *connect.Request[runnerv1.CheckRequest], stream *connect.ServerStream[runnerv1.CheckResponse]) error {
	r, run, err := s.runnerAndRun(req.Header(), req.Msg.GetAgent(), req.Msg.GetRun())
	if err != nil {
		return err
	}
	ctx, endTurn, err := s.takeTurn(ctx, req.Msg.GetAgent().GetUid())
	if err != nil {
		return toFault(err)
	}
	defer endTurn()
	heartbeat := &runnerv1.CheckResponse{Event: &runnerv1.CheckResponse_Heartbeat{Heartbeat: &runnerv1.Heartbeat{}}}
	return respond(ctx, s, stream, heartbeat, req.Msg.GetMaxWait().AsDuration(), func(response *responseStream[runnerv1.CheckResponse]) (*runnerv1.CheckResponse, error) {
		res, err := r.Check(response.workCtx, run, checkFromProto(req.Msg.GetCheck()))
		return &runnerv1.CheckResponse{Event: &runnerv1.CheckResponse_Result{Result: checkResultToProto(res)}}, err
	})
}

// Check implements fleet.Runner.
func (w runner) Check(ctx context.Context, r fleet.Run, c fleet.Check) (res fleet.CheckResult, err error) {
	req := &runnerv1.CheckRequest{Agent: agentToProto(w.agent), Run: runReference(r), Check: checkToProto(c), MaxWait: w.client.maxWait()}
	err = callStream(ctx, w.client, w.agent, w.client.rpc.Check, req, func(m *runnerv1.CheckResponse) bool {
		p := m.GetResult()
		if p != nil {
			res = checkResultFromProto(p)
			res.Command = c.Command
		}
		return p != nil
	})
	return res, err
}

func checkToProto(c fleet.Check) *runnerv1.Check {
	return &runnerv1.Check{Id: c.ID, Command: c.Command, Timeout: durationpb.New(c.Timeout)}
}

func checkFromProto(p *runnerv1.Check) fleet.Check {
	return fleet.Check{ID: p.GetId(), Command: p.GetCommand(), Timeout: p.GetTimeout().AsDuration()}
}

func checkResultToProto(r fleet.CheckResult) *runnerv1.CheckResult {
	p := &runnerv1.CheckResult{
		Command: r.Command, Status: string(r.Status), Reason: toValidUTF8(r.Reason), Output: toValidUTF8(r.Output), Truncated: r.Truncated,
		StartedAt: timeToProto(r.StartedAt), EndedAt: timeToProto(r.EndedAt),
	}
	if r.ExitCode != nil {
		p.ExitCode = new(int32(*r.ExitCode))
	}
	return p
}

func checkResultFromProto(p *runnerv1.CheckResult) fleet.CheckResult {
	r := fleet.CheckResult{
		Command: p.GetCommand(), Status: fleet.CheckStatus(p.GetStatus()), Reason: truncate(p.GetReason()), Output: p.GetOutput(),
		Truncated: p.GetTruncated(), StartedAt: timeFromProto(p.GetStartedAt()), EndedAt: timeFromProto(p.GetEndedAt()),
	}
	if n := len(r.Output) - fleet.MaxCheckOutput; n > 0 {
		r.Output, r.Truncated = strings.ToValidUTF8(r.Output[n:], ""), true
	}
	switch r.Status {
	case fleet.CheckPassed, fleet.CheckFailed, fleet.CheckTimedOut, fleet.CheckStopped:
	default:
		r.Status, r.Reason = fleet.CheckFailed, "the runner reports an end of the check that this version of Fleet does not know: upgrade Fleet"
	}
	if p.ExitCode != nil {
		r.ExitCode = new(int(p.GetExitCode()))
	}
	return r
}
