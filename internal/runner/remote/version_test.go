package remote

import (
	"context"
	"crypto/ed25519"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/timestamppb"

	runnerv1 "fleet/gen/fleet/runner/v1"
	"fleet/gen/fleet/runner/v1/runnerv1connect"
	"fleet/internal/fleet"
	"fleet/internal/waittest"
)

// otherVersion is a runner of another version.
type otherVersion struct {
	runnerv1connect.UnimplementedRunnerServiceHandler
	handshake *runnerv1.HandshakeResponse
	follow    func(*connect.ServerStream[runnerv1.FollowResponse]) error
}

func (o *otherVersion) Handshake(context.Context, *connect.Request[runnerv1.HandshakeRequest]) (*connect.Response[runnerv1.HandshakeResponse], error) {
	o.handshake.Instance, o.handshake.Now = "one", timestamppb.Now()
	return connect.NewResponse(o.handshake), nil
}

func (o *otherVersion) Interrupt(context.Context, *connect.Request[runnerv1.InterruptRequest]) (*connect.Response[runnerv1.InterruptResponse], error) {
	return connect.NewResponse(&runnerv1.InterruptResponse{}), nil
}

func (o *otherVersion) Follow(_ context.Context, _ *connect.Request[runnerv1.FollowRequest], stream *connect.ServerStream[runnerv1.FollowResponse]) error {
	return o.follow(stream)
}

// serve returns a client's runner of an agent. If front is not nil, the handler that it returns gets the requests first.
func (o *otherVersion) serve(t *testing.T, front func(http.Handler) http.Handler) fleet.Runner {
	_, handler := runnerv1connect.NewRunnerServiceHandler(o)
	if front != nil {
		handler = front(handler)
	}
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	_, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	return NewClient(ClientConfig{URL: s.URL, Key: key, RetryTimeout: waittest.Limit}).Connect(fleet.Agent{UID: "one", Name: "papi"})
}

// TestProtocols checks that compatible versions work, and that the error for incompatible versions says what to do.
func TestProtocols(t *testing.T) {
	for name, c := range map[string]struct {
		newest, oldest int32
		wantError      string
	}{
		"the same":            {Protocol, OldestProtocol, ""},
		"newer, compatible":   {Protocol + 5, Protocol, ""},
		"newer, incompatible": {Protocol + 5, Protocol + 1, "upgrade Fleet"},
		"older, compatible":   {OldestProtocol, OldestProtocol, ""},
		"older, incompatible": {OldestProtocol - 1, 0, "restart its workspace with a newer fleet-runner"},
	} {
		t.Run(name, func(t *testing.T) {
			a := (&otherVersion{handshake: &runnerv1.HandshakeResponse{Protocol: c.newest, OldestProtocol: c.oldest, Version: "v9"}}).serve(t, nil)
			err := a.Interrupt(t.Context(), fleet.Run{TaskID: "task"}, false)
			if c.wantError == "" {
				require.NoError(t, err)
				return
			}
			require.Equal(t, fleet.ReasonAgentOffline, fleet.ReasonOf(err))
			require.ErrorContains(t, err, c.wantError)
			require.ErrorContains(t, err, `"v9"`)
		})
	}
}

// TestOldRunner uses a runner without the newest calls. The errors for these calls must say what to do.
func TestOldRunner(t *testing.T) {
	old := &otherVersion{handshake: &runnerv1.HandshakeResponse{Protocol: OldestProtocol, OldestProtocol: OldestProtocol}}
	withoutNewCalls := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]; name {
			case "Answer", "Changes", "Compare", "Patch", "Output", "Check", "Bundle":
				http.NotFound(w, r)
			default:
				next.ServeHTTP(w, r)
			}
		})
	}
	for name, front := range map[string]func(http.Handler) http.Handler{"says so": nil, "has no such path": withoutNewCalls} {
		t.Run(name, func(t *testing.T) {
			a, ctx, r := old.serve(t, front), t.Context(), fleet.Run{TaskID: "task"}
			require.NoError(t, a.Interrupt(ctx, r, false))
			for _, call := range []func() error{
				func() error { return a.Answer(ctx, r, fleet.Question{ID: "task-1"}) },
				func() error { _, err := a.Changes(ctx, r); return err },
				func() error { _, err := a.Compare(ctx, "1", "2"); return err },
				func() error { _, _, err := a.Patch(ctx, fleet.Changes{}, "", 0, 100); return err },
				func() error { _, err := a.Output(ctx, r, 0, 100); return err },
				func() error { _, err := a.Check(ctx, r, fleet.Check{ID: "1", Timeout: waittest.Limit}); return err },
				func() error { return a.Bundle(ctx, io.Discard) },
			} {
				err := call()
				require.Equal(t, fleet.ReasonUnimplemented, fleet.ReasonOf(err), "%v", err)
				require.ErrorContains(t, err, "restart its workspace with a newer fleet-runner")
			}
		})
	}
}

// TestRunnerWithoutLanding uses a runner whose handshake does not say that it can combine work. Such a runner must get no call
// for it.
func TestRunnerWithoutLanding(t *testing.T) {
	old := &otherVersion{handshake: &runnerv1.HandshakeResponse{Protocol: Protocol, OldestProtocol: OldestProtocol}}
	w := old.serve(t, nil).(runner)
	r, ctx := w.client.Repository(w.agent, Source{}), t.Context()
	for _, call := range []func() error{
		func() error { _, err := r.Collect(ctx, "1"); return err },
		func() error { _, err := r.Unpack(ctx, "1", strings.NewReader("PACK")); return err },
		func() error { return r.Pack(ctx, "1", nil, false, io.Discard) }, // which would be the bundle of all work
		func() error { return r.WriteLFS(ctx, "1", io.Discard) },
		func() error { _, err := r.AddLFS(ctx, "1", strings.NewReader("x")); return err },
		func() error { _, err := r.Branch(ctx, ""); return err },
		func() error { return r.Move(ctx, fleet.Branch{Name: "main", Commit: "1"}, "2") },
		func() error { _, err := r.Check(ctx, "1", fleet.Check{ID: "1", Timeout: waittest.Limit}); return err },
		func() error { _, err := r.Push(ctx, fleet.Push{Commit: "1", Branch: "b"}); return err },
	} {
		err := call()
		require.Equal(t, fleet.ReasonUnimplemented, fleet.ReasonOf(err), "%v", err)
		require.ErrorContains(t, err, "cannot combine work: restart its workspace with a newer fleet-runner") // a call that reached the runner would return another text
	}
}

// TestUnsupportedOptions checks that a runner that would ignore the options of a task does not get the task.
func TestUnsupportedOptions(t *testing.T) {
	r := fleet.Run{TaskID: "task", Timeout: waittest.Limit, Options: fleet.TaskOptions{MaxTurns: new(3)}}
	a := (&otherVersion{handshake: &runnerv1.HandshakeResponse{Protocol: Protocol, OldestProtocol: OldestProtocol, TaskOptions: []string{"model"}}}).serve(t, nil)
	err := a.Dispatch(t.Context(), r)
	require.Equal(t, fleet.ReasonInvalidArgument, fleet.ReasonOf(err))
	require.ErrorContains(t, err, "the runner of the agent does not support max_turns")
}

// TestUpgradedRunner upgrades a runner after a handshake. The old handshake must not count afterwards.
func TestUpgradedRunner(t *testing.T) {
	r := fleet.Run{TaskID: "task", Timeout: waittest.Limit, Options: fleet.TaskOptions{MaxTurns: new(3)}}
	o := &otherVersion{handshake: &runnerv1.HandshakeResponse{Protocol: Protocol, OldestProtocol: OldestProtocol}}
	w := o.serve(t, nil).(runner)
	upgrade := func(options, features []string) {
		o.handshake = &runnerv1.HandshakeResponse{Protocol: Protocol, OldestProtocol: OldestProtocol, TaskOptions: options, Features: features}
	}
	require.Equal(t, fleet.ReasonUnimplemented, fleet.ReasonOf(w.client.CheckLanding(t.Context(), w.agent)))
	upgrade(nil, []string{landingFeature})
	require.NoError(t, w.client.CheckLanding(t.Context(), w.agent))
	require.Error(t, w.client.CheckOptions(r.Options))
	require.NoError(t, w.client.CheckOptions(r.Options), "the next handshake decides")
	require.Equal(t, fleet.ReasonInvalidArgument, fleet.ReasonOf(w.Dispatch(t.Context(), r)))
	upgrade([]string{"max_turns"}, nil)
	require.Equal(t, fleet.ReasonUnimplemented, fleet.ReasonOf(w.Dispatch(t.Context(), r)), "otherVersion has no Dispatch, but must get the call")
}

// TestNewRunner checks that Fleet ignores unknown events and fields of a newer runner, and treats an unknown status as a failure.
func TestNewRunner(t *testing.T) {
	unknown := protowire.AppendString(protowire.AppendTag(nil, 1000, protowire.BytesType), "from the future")
	a := (&otherVersion{
		handshake: &runnerv1.HandshakeResponse{Protocol: Protocol + 1, OldestProtocol: Protocol},
		follow: func(stream *connect.ServerStream[runnerv1.FollowResponse]) error {
			event, out, end := &runnerv1.FollowResponse{}, outputToProto(fleet.Output{Cursor: "1", Text: "hi"}), outcomeToProto(fleet.Outcome{Status: fleet.TaskCompleted})
			event.ProtoReflect().SetUnknown(unknown)
			out.ProtoReflect().SetUnknown(unknown)
			end.Status = 99
			for _, m := range []*runnerv1.FollowResponse{
				event, {Event: &runnerv1.FollowResponse_Output{Output: out}}, {Event: &runnerv1.FollowResponse_Outcome{Outcome: end}},
			} {
				if err := stream.Send(m); err != nil {
					return err
				}
			}
			return nil
		},
	}).serve(t, nil)
	var outputs []fleet.Output
	o, err := a.Follow(t.Context(), fleet.Run{TaskID: "task"}, "", func(out fleet.Output) error {
		outputs = append(outputs, out)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []fleet.Output{{Cursor: "1", Text: "hi"}}, outputs)
	require.Equal(t, fleet.TaskFailed, o.Status, "an unknown end must not count as success")
	require.NotEmpty(t, o.Reason)
}
