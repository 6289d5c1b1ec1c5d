//go:build cgo

package cagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docker/cagent/pkg/chat"
	"github.com/docker/cagent/pkg/runtime"
	"github.com/docker/cagent/pkg/session"
	"github.com/docker/cagent/pkg/tools"

	"fleet/internal/fleet"
	"fleet/internal/runner/driver"
)

// Why runs end that do not end by themselves.
var (
	errInterrupted = errors.New("interrupted")
	errStopped     = errors.New("its workspace was stopped")
	errDeleted     = errors.New("its agent was deleted")
	errShutdown    = errors.New("the server was shut down while the task was under way; what the agent had done by then stays done")
	errDeadline    = errors.New("deadline")
	errReported    = errors.New("the agent has reported its result")
	errTooMuch     = errors.New("it put out too much")
	errTooOften    = errors.New("it asked its model too often")
)

const (
	endGrace   = 5 * time.Second        // for the library to notice that a run was cut off
	flushAfter = 250 * time.Millisecond // how long text waits for the end of its line
	flushSize  = 4 << 10
	maxStep    = 300      // bytes of a step's text
	maxData    = 32 << 10 // bytes of arguments and results in a step's data
	maxSummary = 4000     // bytes
	maxReason  = 1000     // bytes
)

// task is what a run is given.
type task struct {
	Record  *record       `json:"record"`
	ID      string        `json:"id"`
	Timeout time.Duration `json:"timeout"`
	Work    string        `json:"work"`   // where the agent works
	State   home          `json:"state"`  // where its conversation and its todos are
	Memory  home          `json:"memory"` // where its memories are
}

// run is a run of this process, which is the server's or the run's own.
type run struct {
	engine *engine
	task
	out  *output
	gate *gate

	cancel context.CancelCauseFunc // cuts off everything in it
	quit   chan struct{}           // closed when its tools are to end, with it or before

	mu       sync.Mutex
	why      error // why it is over, though what was begun may go on
	reported *fleet.Outcome

	calls atomic.Int64 // of tools
}

// newRun returns a run of the task, and the context that it is to be done with.
func newRun(ctx context.Context, e *engine, t task, out *output) (context.Context, *run) {
	r := &run{engine: e, task: t, out: out, quit: make(chan struct{})}
	r.gate = &gate{config: &e.config, secrets: e.secrets, over: r.over, limit: func() { r.conclude(errTooOften) }}
	ctx, r.cancel = context.WithCancelCause(ctx)
	return ctx, r
}

// over reports whether nothing new is to be begun.
func (r *run) over() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.why != nil
}

// conclude has the run end when what it has begun with its model is done. The first reason counts.
func (r *run) conclude(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.why == nil {
		r.why = why
	}
	select {
	case <-r.quit:
	default:
		close(r.quit)
	}
}

// interrupt asks the run to end.
func (r *run) interrupt() { r.conclude(errInterrupted) }

// kill cuts the run off.
func (r *run) kill(why error) {
	r.conclude(why)
	r.cancel(why)
}

// report takes the result that the agent reports. The first one counts.
func (r *run) report(summary string, payload []byte) {
	r.mu.Lock()
	if r.reported == nil && r.why == nil {
		r.reported = &fleet.Outcome{Status: fleet.TaskCompleted, Summary: summary, Payload: payload, Reported: true}
		r.why = errReported
	}
	r.mu.Unlock()
	// Its tools are left alone: the call that reports is one of them, and it is about to return.
}

// hide returns the error without secrets.
func (r *run) hide(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(r.engine.secrets.hide(err.Error()))
}

// do does the task, and returns how it ended.
func (r *run) do(ctx context.Context, prompt string) fleet.Outcome {
	timer := time.AfterFunc(r.Timeout, func() { r.kill(errDeadline) })
	final, err := r.converse(ctx, prompt)
	timer.Stop()
	r.cancel(nil)
	return r.conclusion(final, err)
}

// conclusion says how the run ended: final is the last the agent said.
func (r *run) conclusion(final string, err error) fleet.Outcome {
	r.mu.Lock()
	why, reported := r.why, r.reported
	r.mu.Unlock()
	final = strings.TrimSpace(clean(r.engine.secrets.hide(final)))
	o := fleet.Outcome{Status: fleet.TaskCompleted, Summary: clip(final, maxSummary)}
	if final != "" {
		o.Payload = []byte(final)
	}
	fail := func(format string, args ...any) {
		o.Status, o.Reason = fleet.TaskFailed, clip(clean(r.engine.secrets.hide(fmt.Sprintf(format, args...))), maxReason)
	}
	switch {
	case reported != nil:
		o = *reported
	case errors.Is(why, errInterrupted):
		o.Status, o.Reason = fleet.TaskStopped, "it was interrupted"
	case errors.Is(why, errStopped), errors.Is(why, errDeleted):
		o.Status, o.Reason = fleet.TaskStopped, why.Error()
	case errors.Is(why, errDeadline):
		fail("it ran longer than its time limit of %s", r.Timeout)
	case errors.Is(why, errTooMuch):
		fail("it put out more than %d bytes", r.engine.config.MaxOutput)
	case errors.Is(why, errTooOften):
		fail("it asked its model %d times, which is as often as a task may", r.gate.asked())
	case why != nil:
		fail("%v", why)
	case err != nil:
		fail("%v", err)
	case final == "" && r.calls.Load() == 0:
		fail("the model gave an empty answer")
	}
	r.bill(&o)
	return o
}

// bill puts into the outcome what the run has used so far.
func (r *run) bill(o *fleet.Outcome) {
	o.Usage, o.CostUSD = r.gate.spent()
	o.Usage.ToolCalls, o.Turns = int(r.calls.Load()), r.gate.asked()
}

// converse has the conversation of the run, and returns the last that the agent said in it.
func (r *run) converse(ctx context.Context, prompt string) (final string, err error) {
	defer func() {
		if p := recover(); p != nil {
			r.engine.config.Logger.Error("a run panicked", "task", r.ID, "panic", p, "stack", string(debug.Stack()))
			err = errors.New("the agent's program broke down; the server's log has the cause")
		}
	}()
	rec := r.Record
	if err := workDir(r.Work); err != nil {
		return "", fmt.Errorf("its directory %s cannot be made", r.Work)
	}
	talk, items, err := openConversation(r.State.path("conversation.jsonl"))
	if err != nil {
		return "", hostError("cannot read the agent's conversation", err)
	}
	c, err := r.crew(ctx)
	if err != nil {
		return "", err
	}
	defer r.dismiss(c)
	rt, err := runtime.New(c.Team, runtime.WithCurrentAgent(c.agent), runtime.WithSessionStore(talk), runtime.WithManagedOAuth(false),
		runtime.WithWorkingDir(r.Work), runtime.WithEnv(r.engine.environ(rec.Recipe.PassEnv, r.Work)))
	if err != nil {
		return "", err
	}
	s := session.New(session.WithTitle(rec.UID), session.WithToolsApproved(true), session.WithWorkingDir(r.Work), session.WithSendUserMessage(false))
	s.Messages = items
	begin := len(items)
	s.AddMessage(session.UserMessage(clean(prompt)))
	talk.id = s.ID
	talk.save(s)
	w := &watcher{run: r, rt: rt}
	if !w.watch(ctx, rt.RunStream(ctx, s)) {
		return w.text.String(), w.err // it goes on by itself somewhere, and what it has is not to be touched
	}
	talk.save(s)
	if talk.err != nil {
		return "", hostError("cannot write the agent's conversation", talk.err)
	}
	return lastSaid(s.Messages[begin:]), w.err
}

// startFailed is what the library writes before the error of a toolset that did not start.
var startFailed = fmt.Sprintf("%T start failed: ", (*guard)(nil))

// dismiss ends what the agents have started.
func (r *run) dismiss(c *crew) {
	ctx, cancel := context.WithTimeout(context.Background(), endGrace)
	defer cancel()
	var wg sync.WaitGroup
	for _, g := range c.sets {
		wg.Go(func() {
			if err := g.Stop(ctx); err != nil {
				r.engine.config.Logger.WarnContext(ctx, "an agent's tools did not end well", "task", r.ID, "error", err)
			}
		})
	}
	wg.Wait()
}

// lastSaid is the last text of an agent.
func lastSaid(items []session.Item) string {
	for i := len(items) - 1; i >= 0; i-- {
		if m := items[i].Message; m != nil && m.Message.Role == chat.MessageRoleAssistant && strings.TrimSpace(m.Message.Content) != "" {
			return m.Message.Content
		}
	}
	return ""
}

// watcher makes outputs of what the library tells of a run.
type watcher struct {
	run   *run
	rt    *runtime.LocalRuntime
	agent string          // that speaks
	line  strings.Builder // text that was not put out yet
	text  strings.Builder // all of it since the last step
	open  int             // calls of tools that are under way
	err   error
}

// watch takes the events until there are no more. It returns false when they did not end in time after the run was cut
// off.
func (w *watcher) watch(ctx context.Context, events <-chan runtime.Event) bool {
	flush := time.NewTimer(time.Hour)
	defer flush.Stop()
	cut := ctx.Done()
	var patience <-chan time.Time
	defer w.end()
	for {
		select {
		case e, ok := <-events:
			if !ok {
				return true
			}
			had := w.line.Len()
			w.take(ctx, e)
			if had == 0 && w.line.Len() > 0 {
				flush.Reset(flushAfter)
			}
			if full, err := w.run.out.state(); full || err != nil {
				w.run.kill(errTooMuch)
			}
		case <-flush.C:
			w.flush(false)
		case <-cut:
			cut, patience = nil, time.After(endGrace)
		case <-patience:
			go func() {
				for range events { // so that it can end some time
				}
			}()
			return false
		}
	}
}

func (w *watcher) end() {
	w.flush(true)
	w.count()
}

// take takes one event.
func (w *watcher) take(ctx context.Context, e runtime.Event) {
	if name := e.GetAgentName(); name != "" && name != w.agent {
		w.flush(true) // what the other one said
		w.agent = name
	}
	switch e := e.(type) {
	case *runtime.AgentChoiceEvent:
		w.write(e.Content)
	case *runtime.ToolCallEvent:
		w.step()
		w.run.calls.Add(1)
		w.open++
		w.put(callStep(e.ToolCall), map[string]any{
			"type": "tool_call", "id": e.ToolCall.ID, "name": e.ToolCall.Function.Name, "arguments": arguments(e.ToolCall.Function.Arguments),
		})
	case *runtime.ToolCallResponseEvent:
		w.step()
		w.open = max(0, w.open-1)
		isError := e.Result != nil && e.Result.IsError
		name, verb := e.ToolCall.Function.Name, " answered"
		if isError {
			verb = " failed"
		}
		text := name + verb
		if e.Response != "" {
			text += ": " + e.Response
		}
		w.put(text, map[string]any{
			"type": "tool_result", "id": e.ToolCall.ID, "name": name, "result": clip(e.Response, maxData), "is_error": isError,
		})
	case *runtime.TokenUsageEvent:
		w.flush(true)
		w.count()
	case *runtime.WarningEvent:
		w.step()
		text := clip(strings.ReplaceAll(e.Message, startFailed, ""), maxData)
		w.put("warning: "+text, map[string]any{"type": "warning", "message": text})
	case *runtime.ErrorEvent:
		text := e.Error
		for _, about := range []string{"creating chat completion: ", "error receiving from stream: "} { // which says nothing to people
			text = strings.TrimPrefix(text, about)
		}
		w.err = errors.New(text)
	case *runtime.ElicitationRequestEvent:
		w.answer(ctx, func() error {
			return w.rt.ResumeElicitation(ctx, tools.ElicitationActionDecline, nil)
		})
	case *runtime.ToolCallConfirmationEvent:
		w.answer(ctx, func() error { // the guard has approved before; this is a tool that came some other way
			w.rt.Resume(ctx, runtime.ResumeTypeReject)
			return nil
		})
	}
}

// answer answers a question that the library is about to wait for. There is no signal that it does, so it is tried until
// it works.
func (w *watcher) answer(ctx context.Context, f func() error) {
	go func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if f() == nil {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
}

// write takes text and puts out what is whole lines.
func (w *watcher) write(s string) {
	s = clean(s)
	w.text.WriteString(s)
	w.line.WriteString(s)
	if strings.Contains(s, "\n") || w.line.Len() > flushSize {
		all := w.line.String()
		cut := strings.LastIndexByte(all, '\n') + 1
		if len(all)-cut > flushSize {
			cut = len(all)
		}
		w.line.Reset()
		w.line.WriteString(all[cut:])
		w.say(all[:cut])
	}
}

// flush puts out what there is of a line; the end of a message is the end of its line.
func (w *watcher) flush(end bool) {
	s := w.line.String()
	w.line.Reset()
	if s == "" {
		return
	}
	if end && !strings.HasSuffix(s, "\n") {
		s += "\n"
	}
	w.say(s)
}

func (w *watcher) say(s string) {
	if s != "" {
		w.run.out.add(driver.Said{Open: w.open, Text: w.run.engine.secrets.hide(s), Data: w.data(map[string]any{"type": "text"})})
	}
}

// step ends the text before a step.
func (w *watcher) step() {
	w.flush(true)
	w.text.Reset()
}

func (w *watcher) put(text string, data map[string]any) {
	p := driver.Said{Step: true, Open: w.open, Text: clean(oneLine(w.run.engine.secrets.hide(text), maxStep))}
	if data != nil {
		p.Data = w.data(data)
	}
	w.run.out.add(p)
}

// data is an output for programs, with the name of the agent that it is of.
func (w *watcher) data(data map[string]any) json.RawMessage {
	if w.agent != "" {
		data["agent"] = w.agent
	}
	b, err := json.Marshal(data)
	if err != nil {
		return nil
	}
	return json.RawMessage(w.run.engine.secrets.hide(strings.ReplaceAll(string(b), `\u0000`, `\ufffd`)))
}

// count says what was used.
func (w *watcher) count() {
	for _, u := range w.run.gate.take() {
		w.put(fmt.Sprintf("%s: %d tokens in, %d out", u.model, u.in(), u.output), map[string]any{
			"type": "usage", "model": u.model, "input_tokens": u.in(), "output_tokens": u.output,
		})
	}
}

// callStep says in one line what a tool is used for: what a person would ask first.
func callStep(c tools.ToolCall) string {
	var args map[string]any
	_ = json.Unmarshal([]byte(c.Function.Arguments), &args) // anything else says nothing more
	for _, key := range []string{"cmd", "command", "path", "url", "query", "pattern", "agent", "task", "thought", "description", "summary"} {
		if s, ok := args[key].(string); ok && strings.TrimSpace(s) != "" {
			return c.Function.Name + ": " + s
		}
	}
	return c.Function.Name
}

// arguments are the arguments as JSON, or as a text when they are none or too much.
func arguments(s string) any {
	if len(s) <= maxData && json.Valid([]byte(s)) {
		return json.RawMessage(s)
	}
	return clip(s, maxData)
}
