package cli

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/loopback/loopbacktest"
)

// stub is an in-memory fleet whose agents run their tasks with sh. It outlives its servers, as a database would.
type stub struct {
	fleetv1.UnimplementedFleetServiceServer
	fleetv1.UnimplementedTokenServiceServer

	// beforeUnary runs before every call of a unary method, and beforeWatch before every call of WatchFleet, if they are set. An error becomes
	// the answer.
	beforeUnary func(ctx context.Context, method string, req any) error
	beforeWatch func(req *fleetv1.WatchFleetRequest) error
	// handlers are the functions that answer calls of toolsets, by method. A method without a handler answers with an empty message.
	handlers map[string]func(req proto.Message, out grpc.ServerStream) error

	bundle      []byte // the bundle of every agent
	ignoresStop bool   // StopTask answers at once, and the task goes on

	staleReason string                 // why lists are stale; "" if they are not
	places      []*fleetv1.PlaceStatus // the places of agents; nil if the server does not report them

	mu           sync.Mutex
	changed      chan struct{}  // closed at every change
	callCounts   map[string]int // how often a call that starts or creates an agent was made, by request id
	agents       map[string]*fleetv1.Agent
	tasks        []*fleetv1.TaskDetail
	runs         map[string]*exec.Cmd // by the id of the task
	stoppedTasks map[string]bool      // by id
	events       []*fleetv1.Event
	// questions are the questions of the agents; answers receives the answers.
	questions     []*fleetv1.Question
	answers       chan *fleetv1.AnswerQuestionRequest
	unsavedWork   string // work that exists only in the workspaces of all agents
	plan          *fleetv1.PlanBulkRequest
	runGoroutines sync.WaitGroup
}

// errEndEarly is an error of beforeWatch that makes WatchFleet end its stream without an error.
var errEndEarly = errors.New("early")

func newStub(t *testing.T) *stub {
	s := &stub{
		changed: make(chan struct{}), agents: map[string]*fleetv1.Agent{}, runs: map[string]*exec.Cmd{},
		stoppedTasks: map[string]bool{},
	}
	t.Cleanup(func() {
		s.mu.Lock()
		for _, run := range s.runs {
			_ = syscall.Kill(-run.Process.Pid, syscall.SIGKILL)
		}
		s.mu.Unlock()
		s.runGoroutines.Wait()
	})
	return s
}

// listen serves the stub at the address or, if it is empty, at a free address. It returns the address and a function
// that ends the server like a crash.
func (s *stub) listen(t *testing.T, address string) (string, func()) {
	address = cmp.Or(address, loopbacktest.Address(t))
	loopbacktest.WaitUntilFree(t, address)
	l, err := net.Listen("tcp", address)
	require.NoError(t, err)
	server := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if s.beforeUnary != nil {
			if err := s.beforeUnary(ctx, info.FullMethod, req); err != nil {
				return nil, err
			}
		}
		return next(ctx, req)
	}), grpc.UnknownServiceHandler(s.serveToolset))
	fleetv1.RegisterFleetServiceServer(server, s)
	fleetv1.RegisterTokenServiceServer(server, s)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		_ = server.Serve(l)
	}()
	stop := sync.OnceFunc(func() {
		server.Stop()
		<-stopped
	})
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

// newGate makes a named pipe. A task that reads from the pipe waits until open is called.
func newGate(t *testing.T) (path string, open func()) {
	path = filepath.Join(t.TempDir(), "gate")
	require.NoError(t, exec.Command("mkfifo", path).Run())
	return path, func() { require.NoError(t, os.WriteFile(path, []byte("x\n"), 0o600)) }
}

// stubWithAgent returns a stub that listens and has the agent papi.
func stubWithAgent(t *testing.T) (s *stub, server string, stop func()) {
	s = newStub(t)
	server, stop = s.listen(t, "")
	mustRun(t, server, "agent", "create", "papi", "--project", "shell", "--spec", "x")
	return s, server, stop
}

// serveToolset answers calls of methods of toolsets.
func (s *stub) serveToolset(_ any, out grpc.ServerStream) error {
	name, _ := grpc.MethodFromServerStream(out)
	d := descriptorOf(name)
	req := messageTypeOf(protoregistry.GlobalTypes, d.Input()).New().Interface()
	if err := out.RecvMsg(req); err != nil {
		return err
	}
	if answer := s.handlers[string(d.Name())]; answer != nil {
		return answer(req, out)
	}
	return out.SendMsg(messageTypeOf(protoregistry.GlobalTypes, d.Output()).New().Interface())
}

// answerWith returns a value for the field handlers. It answers with the message, or with the error if the message is nil.
func answerWith(m proto.Message, err error) func(proto.Message, grpc.ServerStream) error {
	return func(_ proto.Message, out grpc.ServerStream) error {
		if m == nil {
			return err
		}
		return out.SendMsg(m)
	}
}

// statusError returns an error as the server sends it, with the next steps.
func statusError(code codes.Code, reason, message string, metadata map[string]string, next ...string) error {
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: reason, Domain: "fleet", Metadata: metadata}}
	for _, step := range next {
		details = append(details, protoadapt.MessageV1Of(&fleetv1.NextStep{Text: step}))
		message += "; " + strings.NewReplacer("{", "", "}", "").Replace(step)
	}
	s, err := status.New(code, message).WithDetails(details...)
	if err != nil {
		return err
	}
	return s.Err()
}

// addEvent appends an event. The caller holds the lock.
func (s *stub) addEvent(kind fleetv1.Event_Type, agent, task, text, state string) {
	s.events = append(s.events, &fleetv1.Event{
		Cursor: strconv.Itoa(len(s.events) + 1), Time: timestamppb.Now(), Type: kind, AgentName: agent, TaskId: task, Text: text, Status: state,
	})
	close(s.changed)
	s.changed = make(chan struct{})
}

// agent returns the agent with the name. The caller holds the lock.
func (s *stub) agent(name string) (*fleetv1.Agent, error) {
	a := s.agents[strings.ToLower(name)]
	if a == nil {
		return nil, statusError(codes.NotFound, "AGENT_NOT_FOUND", fmt.Sprintf("agent %q not found", name), map[string]string{"agent_name": name}, "{list_agents} shows the existing agents")
	}
	return a, nil
}

// task returns the task with the id. The caller holds the lock.
func (s *stub) task(id string) (*fleetv1.TaskDetail, error) {
	for _, t := range s.tasks {
		if t.GetId() == id {
			return t, nil
		}
	}
	return nil, statusError(codes.NotFound, "TASK_NOT_FOUND", fmt.Sprintf("task %q not found", id), map[string]string{"task_id": id}, "{list_tasks} shows the tasks and their ids")
}

func summaryOf(t *fleetv1.TaskDetail) *fleetv1.Task {
	return &fleetv1.Task{
		Id: t.Id, AgentName: t.AgentName, Summary: t.Summary, Status: t.Status, Source: t.Source, CreatedAt: t.CreatedAt,
		StartedAt: t.StartedAt, CompletedAt: t.CompletedAt, Reason: t.Reason, PayloadSize: t.PayloadSize, CostUsd: t.CostUsd,
		Description: t.Description, Owner: t.Owner,
	}
}

func (s *stub) CreateAgent(_ context.Context, r *fleetv1.CreateAgentRequest) (*fleetv1.CreateAgentResponse, error) {
	unfinished := s.countCall(r.GetName(), r.GetRequestId())
	s.mu.Lock()
	defer s.mu.Unlock()
	a := &fleetv1.Agent{Name: r.GetName(), Status: fleetv1.Agent_idle, State: fleetv1.Agent_running, Project: r.GetProject(), Owner: "local"}
	if unfinished != nil {
		a.State, a.StateReason, a.Status = fleetv1.Agent_starting, "its startup script runs", fleetv1.Agent_offline
	}
	s.agents[strings.ToLower(r.GetName())] = a
	s.addEvent(fleetv1.Event_agent_created, a.Name, "", "", "starting")
	s.addEvent(fleetv1.Event_agent_changed, a.Name, "", "ready", "running")
	return &fleetv1.CreateAgentResponse{Agent: proto.CloneOf(a), Message: fmt.Sprintf("Agent '%s' created successfully", a.Name), Unfinished: unfinished}, nil
}

func (s *stub) ListAgents(context.Context, *fleetv1.ListAgentsRequest) (*fleetv1.ListAgentsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resp := &fleetv1.ListAgentsResponse{Places: s.places}
	for _, key := range slices.Sorted(maps.Keys(s.agents)) {
		a := s.agents[key]
		resp.Agents = append(resp.Agents, proto.CloneOf(&fleetv1.AgentSummary{
			Name: a.Name, Status: a.Status, State: a.State, CurrentTask: a.CurrentTask, Role: a.Role, Project: a.Project,
			CurrentTaskId: a.CurrentTaskId, Owner: a.Owner, Place: a.Place,
		}))
	}
	resp.TotalCount = int32(len(resp.Agents))
	if s.staleReason != "" {
		resp.ObservedAt, resp.StaleReason = timestamppb.New(time.Now().Add(-42*time.Second)), &s.staleReason
	}
	return resp, nil
}

func (s *stub) ShowAgent(_ context.Context, r *fleetv1.ShowAgentRequest) (*fleetv1.ShowAgentResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.agent(r.GetAgentName())
	return &fleetv1.ShowAgentResponse{Agent: proto.CloneOf(a)}, err
}

func (s *stub) DeleteAgent(_ context.Context, r *fleetv1.DeleteAgentRequest) (*fleetv1.DeleteAgentResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.agent(r.GetAgentName())
	if err != nil {
		return nil, err
	}
	if r.GetKeepUnsaved() && s.unsavedWork != "" {
		return nil, statusError(codes.FailedPrecondition, "UNSAVED_WORK", s.unsavedWork, map[string]string{"agent_name": a.Name})
	}
	delete(s.agents, strings.ToLower(a.Name))
	s.addEvent(fleetv1.Event_agent_deleted, a.Name, "", "", "deleted")
	return &fleetv1.DeleteAgentResponse{
		Message: fmt.Sprintf("Agent '%s' deleted successfully", a.Name), DeletedAgent: &fleetv1.DeletedAgent{Name: a.Name, WorkspaceId: a.WorkspaceId},
	}, nil
}

func (s *stub) setState(name string, state fleetv1.Agent_State, st fleetv1.Agent_Status) (*fleetv1.Agent, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.agent(name)
	if err == nil {
		a.State, a.Status = state, st
		s.addEvent(fleetv1.Event_agent_changed, a.Name, "", "", state.String())
	}
	return proto.CloneOf(a), err
}

// countCall counts a call with the request id. It returns a pointer to true if the call is not finished yet, and nil otherwise. A call for
// an agent whose name begins with stuck is never finished. If the name begins with slow, the third call with the same id is finished.
func (s *stub) countCall(name, requestID string) *bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.callCounts == nil {
		s.callCounts = map[string]int{}
	}
	s.callCounts[requestID]++
	if !strings.HasPrefix(name, "stuck") && (!strings.HasPrefix(name, "slow") || s.callCounts[requestID] > 2) {
		return nil
	}
	return proto.Bool(true)
}

// StartAgent refuses to start an agent whose name begins with ill.
func (s *stub) StartAgent(_ context.Context, r *fleetv1.StartAgentRequest) (*fleetv1.StartAgentResponse, error) {
	if strings.HasPrefix(r.GetAgentName(), "ill") {
		return nil, statusError(codes.Aborted, "AGENT_BUSY", "the workspace is unhealthy: starting it again would end the task", map[string]string{"agent_name": r.GetAgentName()}, "wait for it with {wait_tasks}, or end it with {restart_agent}")
	}
	a, err := s.setState(r.GetAgentName(), fleetv1.Agent_running, fleetv1.Agent_idle)
	return &fleetv1.StartAgentResponse{Agent: a, Message: fmt.Sprintf("Agent '%s' started", r.GetAgentName()), Unfinished: s.countCall(r.GetAgentName(), r.GetRequestId())}, err
}

func (s *stub) RestartAgent(_ context.Context, r *fleetv1.RestartAgentRequest) (*fleetv1.RestartAgentResponse, error) {
	a, err := s.setState(r.GetAgentName(), fleetv1.Agent_running, fleetv1.Agent_idle)
	return &fleetv1.RestartAgentResponse{Agent: a, Message: fmt.Sprintf("Agent '%s' restarted", r.GetAgentName())}, err
}

func (s *stub) ListAgentProjects(context.Context, *fleetv1.ListAgentProjectsRequest) (*fleetv1.ListAgentProjectsResponse, error) {
	return &fleetv1.ListAgentProjectsResponse{Places: s.places, Projects: []*fleetv1.Project{{Name: "shell", DisplayName: "Shell", Description: "Scripts on this machine", Place: "local"}}}, nil
}

func (s *stub) StartAgentTask(_ context.Context, r *fleetv1.StartAgentTaskRequest) (*fleetv1.StartAgentTaskResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.agent(r.GetAgentName())
	if err != nil {
		return nil, err
	}
	now := timestamppb.Now()
	t := &fleetv1.TaskDetail{
		Id: fmt.Sprintf("task-%d", len(s.tasks)+1), AgentName: a.Name, Summary: strings.SplitN(r.GetTaskDescription(), "\n", 2)[0],
		Status: fleetv1.Task_running, Source: fleetv1.Task_human, CreatedAt: now, StartedAt: now, Description: r.GetTaskDescription(), Owner: "local",
	}
	s.tasks = append(s.tasks, t)
	a.Status, a.CurrentTask, a.CurrentTaskId = fleetv1.Agent_busy, wrapperspb.String(t.Summary), wrapperspb.String(t.Id)
	s.addEvent(fleetv1.Event_task_created, a.Name, t.Id, "", "pending")
	s.addEvent(fleetv1.Event_task_started, a.Name, t.Id, "", "running")
	if err := s.startRun(t); err != nil {
		return nil, err
	}
	return &fleetv1.StartAgentTaskResponse{Task: summaryOf(proto.CloneOf(t)), AgentStatus: a.Status, Message: "Task started successfully"}, nil
}

// QueueTask returns a task with the same id for calls with the same request id.
func (s *stub) QueueTask(_ context.Context, r *fleetv1.QueueTaskRequest) (*fleetv1.QueueTaskResponse, error) {
	return &fleetv1.QueueTaskResponse{Task: &fleetv1.Task{Id: "task-of-" + r.GetRequestId(), AgentName: r.GetAgentName(), Status: fleetv1.Task_pending}}, nil
}

// startRun runs the description of the task with sh. The caller holds the lock.
func (s *stub) startRun(t *fleetv1.TaskDetail) error {
	cmd := exec.Command("sh", "-c", t.Description)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return err
	}
	s.runs[t.Id] = cmd
	s.runGoroutines.Go(func() {
		var all strings.Builder
		for r := bufio.NewReader(out); ; {
			line, err := r.ReadString('\n')
			if line != "" {
				all.WriteString(line)
				s.mu.Lock()
				s.addEvent(fleetv1.Event_task_output, t.AgentName, t.Id, line, "")
				s.mu.Unlock()
			}
			if err != nil {
				break
			}
		}
		err := cmd.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.endTask(t, all.String(), err)
	})
	return nil
}

// endTask records the end of the task, whose run wrote the output and ended with err. The caller holds the lock.
func (s *stub) endTask(t *fleetv1.TaskDetail, output string, err error) {
	delete(s.runs, t.Id)
	t.CompletedAt = timestamppb.Now()
	if lines := strings.Fields(strings.ReplaceAll(output, " ", "\u00a0")); len(lines) > 0 {
		t.Summary = strings.ReplaceAll(lines[len(lines)-1], "\u00a0", " ")
		t.Payload, t.PayloadSize = proto.String(output), int32(len(output))
	} else if err == nil {
		t.Summary = ""
	}
	switch {
	case s.stoppedTasks[t.Id]:
		t.Status, t.Reason = fleetv1.Task_stopped, "stopped by local"
	case err != nil:
		t.Status, t.Reason = fleetv1.Task_failed, err.Error()
	default:
		t.Status = fleetv1.Task_completed
	}
	if a := s.agents[strings.ToLower(t.AgentName)]; a != nil {
		a.Status, a.CurrentTask, a.CurrentTaskId = fleetv1.Agent_idle, nil, nil
	}
	s.addEvent(fleetv1.Event_task_ended, t.AgentName, t.Id, t.Reason, t.Status.String())
}

// StopAgentTask kills the agent's running task and waits for its end.
func (s *stub) StopAgentTask(ctx context.Context, r *fleetv1.StopAgentTaskRequest) (*fleetv1.StopAgentTaskResponse, error) {
	s.mu.Lock()
	a, err := s.agent(r.GetAgentName())
	if err == nil && a.CurrentTaskId == nil {
		err = statusError(codes.NotFound, "NO_RUNNING_TASK", fmt.Sprintf("agent %q has no running task", a.Name), map[string]string{"agent_name": a.Name}, "{show_agent_task_history} shows the ones it had")
	}
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	id := a.CurrentTaskId.GetValue()
	s.stoppedTasks[id] = true
	s.addEvent(fleetv1.Event_task_stopping, a.Name, id, "killed", "")
	_ = syscall.Kill(-s.runs[id].Process.Pid, syscall.SIGKILL)
	s.mu.Unlock()
	tasks, _, err := s.waitForTasks(ctx, []string{id}, fleetv1.WaitTasksRequest_all, time.Minute)
	if err != nil {
		return nil, err
	}
	return &fleetv1.StopAgentTaskResponse{Task: tasks[0], AgentStatus: fleetv1.Agent_idle, Message: "Task stopped successfully"}, nil
}

// StopTask stops a running task. It does nothing if the task has ended.
func (s *stub) StopTask(ctx context.Context, r *fleetv1.StopTaskRequest) (*fleetv1.StopTaskResponse, error) {
	if s.ignoresStop {
		return &fleetv1.StopTaskResponse{}, nil
	}
	s.mu.Lock()
	name := ""
	for _, a := range s.agents {
		if a.CurrentTaskId.GetValue() == r.GetTaskId() {
			name = a.Name
		}
	}
	s.mu.Unlock()
	if name == "" { // it has ended
		return &fleetv1.StopTaskResponse{}, nil
	}
	stopped, err := s.StopAgentTask(ctx, &fleetv1.StopAgentTaskRequest{AgentName: name})
	return &fleetv1.StopTaskResponse{Task: stopped.GetTask(), Message: stopped.GetMessage()}, err
}

// waitForTasks waits until all of the tasks have ended, or one of them in mode any. It waits at most for the limit; done is false if they
// have not ended by then.
func (s *stub) waitForTasks(ctx context.Context, ids []string, mode fleetv1.WaitTasksRequest_Mode, limit time.Duration) (tasks []*fleetv1.Task, done bool, err error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for late := limit <= 0; ; {
		s.mu.Lock()
		tasks = nil
		ended := 0
		for _, id := range ids {
			t, err := s.task(id)
			if err != nil {
				s.mu.Unlock()
				return nil, false, err
			}
			if hasEnded(t.Status) {
				ended++
			}
			tasks = append(tasks, summaryOf(proto.CloneOf(t)))
		}
		changed := s.changed
		s.mu.Unlock()
		if done = ended == len(ids) || mode == fleetv1.WaitTasksRequest_any && ended > 0; done || late {
			return tasks, done, nil
		}
		select {
		case <-changed:
		case <-timer.C:
			late = true
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
	}
}

func (s *stub) WaitTasks(ctx context.Context, r *fleetv1.WaitTasksRequest) (*fleetv1.WaitTasksResponse, error) {
	tasks, done, err := s.waitForTasks(ctx, r.GetTaskIds(), r.GetMode(), time.Duration(r.GetTimeoutSeconds())*time.Second)
	return &fleetv1.WaitTasksResponse{Tasks: tasks, Done: done, Message: "Waited."}, err
}

func (s *stub) ShowTask(_ context.Context, r *fleetv1.ShowTaskRequest) (*fleetv1.ShowTaskResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.task(r.GetTaskId())
	if err != nil {
		return nil, err
	}
	t = proto.CloneOf(t)
	if !r.GetIncludePayload() {
		t.Payload = nil
	}
	return &fleetv1.ShowTaskResponse{Task: t}, nil
}

// DownloadAgentBundle sends the bundle in one piece.
func (s *stub) DownloadAgentBundle(r *fleetv1.DownloadAgentBundleRequest, out grpc.ServerStreamingServer[httpbody.HttpBody]) error {
	if len(s.bundle) == 0 {
		return statusError(codes.NotFound, "BUNDLE_NOT_FOUND", fmt.Sprintf("agent %q has nothing to rescue", r.GetAgentName()), nil)
	}
	sum := sha256.Sum256(s.bundle)
	about, err := anypb.New(&fleetv1.PayloadInfo{Size: int64(len(s.bundle)), Sha256: hex.EncodeToString(sum[:])})
	if err != nil {
		return err
	}
	return out.Send(&httpbody.HttpBody{ContentType: "application/x-git-bundle", Data: s.bundle, Extensions: []*anypb.Any{about}})
}

// DownloadTaskPayload sends the payload in pieces of 10 bytes.
func (s *stub) DownloadTaskPayload(r *fleetv1.DownloadTaskPayloadRequest, out grpc.ServerStreamingServer[httpbody.HttpBody]) error {
	s.mu.Lock()
	t, err := s.task(r.GetTaskId())
	payload := t.GetPayload()
	s.mu.Unlock()
	switch {
	case len(r.GetTaskId()) > 128:
		return statusError(codes.InvalidArgument, "INVALID_ARGUMENT", "task_id is too long", map[string]string{"field": "task_id"})
	case err != nil:
		return err
	case payload == "":
		return statusError(codes.NotFound, "PAYLOAD_NOT_FOUND", fmt.Sprintf("task %q has no payload", t.GetId()), nil)
	case int(r.GetOffset()) > len(payload):
		return statusError(codes.InvalidArgument, "INVALID_ARGUMENT", "offset is too large", map[string]string{"field": "offset"})
	}
	if t.GetPayloadEncoding() == "base64" {
		b, err := base64.StdEncoding.DecodeString(payload)
		if err != nil {
			return err
		}
		payload = string(b)
	}
	sum := sha256.Sum256([]byte(payload))
	about, err := anypb.New(&fleetv1.PayloadInfo{Offset: r.GetOffset(), Size: int64(len(payload)), Sha256: hex.EncodeToString(sum[:])})
	extensions := []*anypb.Any{about}
	for rest := payload[r.GetOffset():]; err == nil && (rest != "" || extensions != nil); extensions = nil {
		n := min(10, len(rest))
		err = out.Send(&httpbody.HttpBody{ContentType: "text/plain", Data: []byte(rest[:n]), Extensions: extensions})
		rest = rest[n:]
	}
	return err
}

// ShowTaskChanges answers with two files in pages of one file, and with a patch in pages of 10 bytes. The second page of the
// patch is not UTF-8. The changes of the task t-unknown are not known, and those of the task incomplete lack a file.
func (s *stub) ShowTaskChanges(_ context.Context, r *fleetv1.ShowTaskChangesRequest) (*fleetv1.ShowTaskChangesResponse, error) {
	if r.GetTaskId() == "t-unknown" {
		return &fleetv1.ShowTaskChangesResponse{Changes: &fleetv1.TaskChanges{Problem: proto.String("the disk is full")}}, nil
	}
	if r.GetTaskId() == "incomplete" {
		return &fleetv1.ShowTaskChangesResponse{Changes: &fleetv1.TaskChanges{LeftOut: []string{"big (larger than 50 MiB)\x1b"}}}, nil
	}
	resp := &fleetv1.ShowTaskChangesResponse{Changes: &fleetv1.TaskChanges{Files: 2, Insertions: 3, Deletions: 1, Commits: 1, Branch: "fleet/papi"}}
	switch {
	case !r.GetPatch() && r.GetCursor() == "":
		resp.Files = []*fleetv1.FileChange{{Path: "main.go", Kind: fleetv1.FileChange_added, Insertions: 3}}
		resp.NextCursor = proto.String("1")
	case !r.GetPatch():
		resp.Files = []*fleetv1.FileChange{{Path: "b.png", From: proto.String("a.png"), Kind: fleetv1.FileChange_renamed, Binary: true}}
	case r.GetPatchOffset() == 0:
		what := r.GetPath()
		if r.GetSince() != fleetv1.ShowTaskChangesRequest_since_unspecified {
			what = r.GetSince().String()
		}
		resp.Patch, resp.PatchNextOffset = proto.String("diff "+what+"\n"), proto.Int32(10)
	default:
		resp.Patch, resp.PatchEncoding = proto.String("K1z/Cg=="), proto.String("base64")
	}
	return resp, nil
}

// ShowTaskOutput answers with an output of 20 bytes in pages of 10 bytes. 5 bytes of the output are missing. The last page is
// not UTF-8.
func (s *stub) ShowTaskOutput(_ context.Context, r *fleetv1.ShowTaskOutputRequest) (*fleetv1.ShowTaskOutputResponse, error) {
	resp := &fleetv1.ShowTaskOutputResponse{Offset: r.GetOffset(), Size: 20, GapOffset: proto.Float64(10), GapSize: proto.Float64(5)}
	switch {
	case r.Tail != nil:
		resp.Offset, resp.Output = 18, "x\n"
	case r.GetOffset() == 0:
		resp.Output, resp.NextOffset = "beginning\n", proto.Float64(10)
	default:
		resp.Offset, resp.Output, resp.OutputEncoding = 15, "K1z/Cg==", proto.String("base64")
	}
	return resp, nil
}

func (s *stub) WatchFleet(r *fleetv1.WatchFleetRequest, stream grpc.ServerStreamingServer[fleetv1.WatchFleetResponse]) error {
	if s.beforeWatch != nil {
		if err := s.beforeWatch(r); errors.Is(err, errEndEarly) {
			return nil
		} else if err != nil {
			return err
		}
	}
	s.mu.Lock()
	cursor, _ := strconv.Atoi(r.GetCursor())
	if r.GetCursor() == "now" {
		cursor = len(s.events)
	}
	s.mu.Unlock()
	for {
		s.mu.Lock()
		batch := []*fleetv1.Event{}
		isLast := !r.GetFollow()
		for ; cursor < len(s.events); cursor++ {
			e := s.events[cursor]
			if r.GetTaskId() != "" && e.TaskId != r.GetTaskId() || r.GetAgentName() != "" && e.AgentName != r.GetAgentName() {
				continue
			}
			batch = append(batch, proto.CloneOf(e))
			isLast = isLast || r.GetTaskId() != "" && e.Type == fleetv1.Event_task_ended
		}
		changed := s.changed
		s.mu.Unlock()
		if len(batch) > 0 || isLast {
			if err := stream.Send(&fleetv1.WatchFleetResponse{Events: batch, Cursor: strconv.Itoa(cursor)}); err != nil {
				return err
			}
		}
		if isLast {
			return nil
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// ListTasks lists the tasks of the agent with the status, newest first.
func (s *stub) ListTasks(_ context.Context, r *fleetv1.ListTasksRequest) (*fleetv1.ListTasksResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resp := &fleetv1.ListTasksResponse{}
	for _, t := range slices.Backward(s.tasks) {
		if t.GetAgentName() == r.GetAgentName() && (r.GetStatus() == fleetv1.Task_status_unspecified || r.GetStatus() == t.GetStatus()) {
			resp.Tasks = append(resp.Tasks, summaryOf(proto.CloneOf(t)))
		}
	}
	return resp, nil
}
