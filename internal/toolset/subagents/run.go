package subagents

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"fleet/internal/fleet"
	"fleet/internal/service"
	"fleet/internal/toolset/conversation"
)

// runMethod is the name of the call under which requests with an id are stored.
const runMethod = "RunSubagent"

// Request is a call of a subagent.
type Request struct {
	Agent   string
	Prompt  string
	Context string // additional information; may be empty

	RequestID string `json:"-"`
}

// Result is the answer of a subagent.
type Result struct {
	Text      string
	Agent     string
	Duration  time.Duration
	TaskID    string // the last task, if the subagent was asked again
	SessionID string // the id of the conversation; empty if the subagent has no conversations
	CostUSD   float64
	Usage     fleet.Usage
	Warnings  conversation.Warnings // for example that an MCP server did not start
}

// Run lets a subagent answer the request, and waits for the answer. If ctx ends before the answer, Run stops the subagent and
// waits up to stopWait for its end. It does not stop a subagent that continues after the call (fleet.WorkContinues); the caller
// can then repeat the request. Run does not wait if the call is detached (fleet.Detached), except for an answer in JSON.
func (s *Service) Run(ctx context.Context, r Request) (*Result, error) {
	startedAt := s.config.Now()
	c, err := s.callerFrom(ctx)
	if err != nil {
		return nil, err
	}
	d, err := s.definition(c, r.Agent)
	if err != nil {
		return nil, err
	}
	prompt, err := r.fullPrompt()
	if err != nil {
		return nil, err
	}
	subagentRun := &run{Service: s, caller: c, definition: d, call: callOf(c, r), result: Result{Agent: d.Name}, detached: fleet.Detached(ctx) && d.OutputFormat != outputJSON}
	ctx = fleet.WithPrincipal(ctx, c.owner)
	if d.Session {
		err = subagentRun.runInConversation(ctx, prompt)
	} else {
		err = subagentRun.runAlone(ctx, prompt)
	}
	if err != nil {
		return nil, err
	}
	subagentRun.result.Duration = max(s.config.Now().Sub(startedAt), 0)
	return &subagentRun.result, nil
}

// fullPrompt returns the prompt with its context. It returns INVALID_ARGUMENT if one of them is invalid or too long.
func (r Request) fullPrompt() (string, error) {
	if strings.TrimSpace(r.Prompt) == "" {
		return "", fleet.Invalid(fleet.ReasonTaskRequired, "prompt", "the prompt is empty: say in prompt what the subagent is to do")
	}
	for _, f := range []struct{ name, text string }{{"prompt", r.Prompt}, {"context", r.Context}} {
		switch {
		case !utf8.ValidString(f.text):
			return "", fleet.InvalidField(f.name, "%s is not valid UTF-8: send UTF-8", f.name)
		case strings.ContainsRune(f.text, 0):
			return "", fleet.InvalidField(f.name, "%s contains a zero byte: remove the zero byte", f.name)
		}
	}
	if len(r.Context) > maxContext {
		return "", fleet.InvalidField("context", "the context has %d bytes, and the limit is %d: put the rest where the subagent can find it", len(r.Context), maxContext)
	}
	text, field := r.Prompt, "prompt"
	if strings.TrimSpace(r.Context) != "" {
		text, field = "Context:\n\n"+strings.TrimSpace(r.Context)+"\n\nTask:\n\n"+r.Prompt, "context"
	}
	if len(text) > fleet.MaxText {
		return "", fleet.InvalidField(field, "the prompt and its context have %d bytes, and the limit is %d: put the rest where the subagent can find it", len(text), fleet.MaxText)
	}
	return text, nil
}

// maxContext is the maximum size of a context, in bytes: half of the limit for prompt and context together.
const maxContext = fleet.MaxText / 2

// callOf returns the call that identifies the request. It is independent of the definition, so a repeated request gets the
// first result even if the definition has changed since.
func callOf(c caller, r Request) service.Call {
	k := service.Call{Method: runMethod, RequestID: r.RequestID, Body: r, Caller: c.owner.Name}
	if c.uid != "" {
		k.Caller += "/" + c.uid
	}
	return k
}

// run is one call of a subagent.
type run struct {
	*Service
	caller     caller
	definition *Definition
	call       service.Call
	// detached is set if the call does not wait for its task. It is never set for an answer in JSON, because the subagent may
	// have to be asked again.
	detached  bool
	timeLimit time.Duration // how long the run may take once its workspace is ready; 0 means that only the timeout of its task counts
	result    Result
}

// launchRequest returns the request that creates the call's agent. The caller sets the prompt.
func (r *run) launchRequest() service.LaunchRequest {
	l := service.LaunchRequest{
		Method: runMethod, RequestID: r.call.RequestID, Body: r.call.Body, Caller: r.call.Caller,
		Toolset: fleet.ToolsetSubagents, Place: r.placeOf(r.definition), Name: r.definition.Name, UID: r.core.NewID(),
		Config: r.definition.agentConfig(r.caller.subagentDepth, r.config.MaxDepth), Timeout: r.definition.Timeout,
	}
	if l.Config == nil {
		l.Project, l.Role, l.Spec = r.definition.Project, r.definition.Role, r.definition.systemPrompt()
		l.Timeout += r.config.StartWait
	}
	return l
}

// runAlone runs the call on an agent made only for this call.
func (r *run) runAlone(ctx context.Context, prompt string) error {
	earlier, repeated, err := r.core.EarlierResult(ctx, r.call)
	if err != nil {
		return err
	}
	if repeated {
		return r.awaitEarlierTask(ctx, earlier.ObjectID, prompt)
	}
	l := r.launchRequest()
	l.OneTask = r.definition.OutputFormat != outputJSON // an agent that answers in JSON may be asked again
	l.Prompt = prompt
	v, err := r.core.Launch(ctx, l)
	if err != nil {
		return err
	}
	if v.UID != l.UID { // a concurrent call of the same request was faster
		return r.awaitEarlierTask(ctx, v.Task.ID, prompt)
	}
	if !l.OneTask {
		defer r.deleteAgent(ctx, v.UID)
	}
	if err := r.waitReady(ctx, v.Task); err != nil {
		return err
	}
	return r.answer(ctx, v.Task, prompt)
}

// awaitEarlierTask waits for the task that an earlier call of the same request has started, and sets its result.
func (r *run) awaitEarlierTask(ctx context.Context, taskID, prompt string) error {
	if r.detached {
		r.result.TaskID = taskID
		return nil
	}
	task, err := r.follow(ctx, taskID)
	if err != nil {
		return err
	}
	r.result.SessionID = task.SessionID
	return r.answer(ctx, task, prompt)
}

// waitReady waits until the task's agent has a workspace. It does nothing for an agent on this machine, which needs none,
// and for a detached call. If the workspace does not become ready, it stops the task. The time limit of the definition
// begins when the workspace is ready, so the timeout of the task is longer.
func (r *run) waitReady(ctx context.Context, task *fleet.Task) error {
	if r.definition.RunsIn == runsInLocal || r.detached { // a detached task is ended by its timeout
		return nil
	}
	r.timeLimit = r.definition.Timeout
	v, ready, err := r.core.AwaitTaskReady(ctx, task, r.config.StartWait)
	if err == nil && !ready {
		err = fleet.Errorf(fleet.ReasonProvisioningFailed, "the workspace of the subagent %q is not ready after %s: it is %s", r.definition.Name, r.config.StartWait, v.State).With("agent_name", r.definition.Name)
	}
	if err != nil {
		r.stopAndWait(ctx, task.ID)
	}
	return err
}

// answer waits for the task and sets the result to its answer. If the answer does not match the definition, it asks the
// subagent again. A detached call does not wait.
func (r *run) answer(ctx context.Context, task *fleet.Task, prompt string) error {
	if r.detached {
		r.result.TaskID = task.ID
		return r.core.Detach(ctx, task.ID)
	}
	for attempt := 1; ; attempt++ {
		text, err := r.awaitAnswer(ctx, task)
		if err != nil {
			return err
		}
		if r.definition.OutputFormat != outputJSON {
			r.result.Text = text
			return nil
		}
		value, problems := r.definition.checkAnswer(text)
		if len(problems) == 0 {
			r.result.Text = value
			return nil
		}
		r.config.Logger.DebugContext(ctx, "subagent answer does not match its definition", slog.String("subagent", r.definition.Name), slog.String("task", r.result.TaskID), slog.Int("attempt", attempt))
		next, err := r.askAgain(ctx, task, attempt, prompt, text, problems)
		if err != nil {
			return err
		}
		task = next
	}
}

// retryPrefix is the beginning of the prompt with which a subagent is asked again.
const retryPrefix = "Your answer cannot be used: "

// askAgain asks the subagent once more, with the problems of its answer. It returns OUTPUT_INVALID if the subagent was
// asked as often as the configuration allows.
func (r *run) askAgain(ctx context.Context, task *fleet.Task, attempt int, prompt, answer string, problems []string) (*fleet.Task, error) {
	if next, err := r.earlierRetry(ctx, task); err != nil || next != nil {
		return next, err
	}
	problemText := strings.Join(problems, "; ")
	invalidErr := fleet.Errorf(fleet.ReasonOutputInvalid, "the subagent %q was asked %d times, and its answer does not match its definition: %s", r.definition.Name, attempt, problemText).
		With("agent_name", r.definition.Name).With("task_id", task.ID).With("attempts", strconv.Itoa(attempt)).With("problems", problemText).With("answer", fleet.Shorten(answer, 2000))
	if attempt > r.config.Retries {
		return nil, invalidErr
	}
	feedback := retryPrefix + strings.Join(problems, "\n") + "\n\nAnswer again, with the one JSON value that was asked for and nothing else."
	if !r.definition.Remembers {
		feedback = fmt.Sprintf("%s\n\nYou were asked:\n\n%s\n\nAnd you answered:\n\n%s", feedback, prompt, fleet.Shorten(answer, 100_000))
	}
	if len(feedback) > fleet.MaxText {
		return nil, invalidErr
	}
	next, err := r.core.StartTurn(ctx, service.TurnRequest{Method: runMethod, AgentUID: task.AgentUID, Prompt: feedback, Timeout: r.definition.Timeout, SessionID: task.SessionID})
	switch fleet.ReasonOf(err) {
	case fleet.ReasonAgentNotFound, fleet.ReasonAgentOffline, fleet.ReasonAgentBusy:
		return nil, invalidErr // the agent was deleted since the request was first made, or another caller had the next turn
	}
	return next, err
}

// earlierRetry returns the task in which an earlier call of the same request asked the subagent again after this task.
// It returns nil if there is none.
func (r *run) earlierRetry(ctx context.Context, task *fleet.Task) (*fleet.Task, error) {
	const maxTasks = 100
	tasks, err := r.core.TasksByUID(ctx, task.AgentUID, maxTasks) // newest first
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(tasks, func(t *fleet.Task) bool { return t.ID == task.ID })
	if i > 0 && strings.HasPrefix(tasks[i-1].Description, retryPrefix) {
		return tasks[i-1], nil
	}
	return nil, nil
}

// awaitAnswer waits for the task and returns its complete answer. It adds the task's cost and usage to the result.
func (r *run) awaitAnswer(ctx context.Context, task *fleet.Task) (string, error) {
	t, err := r.follow(ctx, task.ID)
	if err != nil {
		return "", err
	}
	r.result.TaskID = t.ID
	r.result.CostUSD += t.CostUSD
	u := &r.result.Usage
	u.Model = t.Usage.Model
	u.InputTokens, u.OutputTokens, u.ToolCalls = u.InputTokens+t.Usage.InputTokens, u.OutputTokens+t.Usage.OutputTokens, u.ToolCalls+t.Usage.ToolCalls
	if t.Status != fleet.TaskCompleted {
		return "", r.taskError(t)
	}
	if t.PayloadSize == 0 {
		return t.Summary, nil
	}
	payload, err := r.core.Payload(ctx, t.ID)
	return string(payload), err
}

// taskError returns the error of a task that did not complete.
func (r *run) taskError(t *fleet.Task) error {
	reason, text := conversation.Failure(t)
	return fleet.Errorf(reason, "the subagent %q %s", r.definition.Name, text).With("agent_name", r.definition.Name).With("task_id", t.ID)
}

// stopWait is how long a call waits for the end of a stopped run, or for the deletion of its agent. Long before that, the
// core kills a run that does not stop.
const stopWait = time.Minute

// follow waits until the task has ended. If ctx ends first, or the task takes longer than r.timeLimit, follow stops the task,
// waits for its end, and returns an error. See stopAndWait.
func (r *run) follow(ctx context.Context, taskID string) (*fleet.Task, error) {
	limitedCtx := ctx
	if r.timeLimit > 0 {
		var cancel context.CancelFunc
		limitedCtx, cancel = context.WithTimeout(ctx, r.timeLimit)
		defer cancel()
	}
	t, err := r.core.FollowTask(limitedCtx, taskID, 0, r.result.Warnings.AddEvent)
	if limitedCtx.Err() == nil {
		return t, err
	}
	r.stopAndWait(ctx, taskID)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, fleet.Errorf(fleet.ReasonTaskTimedOut, "the subagent %q was too slow: it ran longer than its limit of %s", r.definition.Name, r.timeLimit).
		With("agent_name", r.definition.Name).With("task_id", taskID)
}

// stopAndWait stops the task and waits up to stopWait for its end, even if ctx is done. It does nothing if the task continues
// after the call.
func (r *run) stopAndWait(ctx context.Context, taskID string) {
	if fleet.WorkContinues(ctx) {
		return
	}
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
	defer cancel()
	err := r.core.RequestTaskStop(stopCtx, taskID)
	if err == nil {
		_, err = r.core.FollowTask(stopCtx, taskID, 0, nil)
	}
	if err != nil {
		r.config.Logger.WarnContext(stopCtx, "abandoned subagent has not ended yet", slog.String("task", taskID), slog.Any("error", err))
	}
}

// deleteAgent deletes the agent of a call. If its task continues after the call, sweep deletes the agent later.
func (r *run) deleteAgent(ctx context.Context, uid string) {
	if fleet.WorkContinues(ctx) {
		return
	}
	deleteCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
	defer cancel()
	if err := r.core.RemoveAgent(deleteCtx, uid); err != nil {
		r.config.Logger.WarnContext(deleteCtx, "subagent not removed, retrying later", slog.String("subagent", r.definition.Name), slog.Any("error", err))
	}
}
