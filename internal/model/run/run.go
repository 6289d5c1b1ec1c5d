//go:build cgo

package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docker/cagent/pkg/chat"
	"github.com/docker/cagent/pkg/runtime"
	"github.com/docker/cagent/pkg/session"

	"fleet/internal/fleet"
	"fleet/internal/model/definition"
	"fleet/internal/runner/driver"
	"fleet/internal/runner/sandbox"
)

// Reasons for ending a run.
var (
	errInterrupted  = errors.New("it was interrupted")
	errReported     = errors.New("the agent has reported its result")
	errOutputLimit  = errors.New("its output exceeded the limit")
	errOutputUnread = errors.New("nobody reads its output")
	errRequestLimit = errors.New("it exceeded the limit of requests to its model")
)

const (
	endGrace   = 5 * time.Second        // how long the library may take to end after a run was cancelled
	flushAfter = 250 * time.Millisecond // how long an incomplete line waits for its end before it is output
	flushSize  = 4 << 10                // an incomplete line of more bytes is output at once
	maxData    = 32 << 10               // bytes of JSON arguments in a step's data, and characters of any other text there
	maxSummary = 4000                   // characters
	maxReason  = 1000                   // characters
)

// run is the run of this process.
type run struct {
	job          driver.ModelJob
	settings     driver.ModelSettings
	log          *slog.Logger
	secrets      *secrets // secrets that definitions may use
	toolSecrets  *secrets // secrets that registered tools may use
	home         string   // HOME of the agents' programs
	processMarks []string // variables by which a supervisor recognises the processes of a run
	out          *output
	gate         *gate

	cancel context.CancelCauseFunc // cancels everything in the run
	quit   chan struct{}           // closed when the run's tools must end; not closed by a reported result

	answerComplete bool // whether the agent has finished its answer; then a later reason to end does not count

	mu              sync.Mutex
	endReason       error          // why the run is over; nil if it is not; active requests may still complete
	reportedOutcome *fleet.Outcome // nil until the agent has reported a result

	toolCalls atomic.Int64
}

// newRun returns the run of the job, and its context. It sets the defaults of the settings, and the limit of the output.
func newRun(ctx context.Context, job driver.ModelJob, out *output, log *slog.Logger) (context.Context, *run, error) {
	if err := useBuiltinModelTable(); err != nil {
		return nil, nil, err
	}
	registerSchemes()
	shared := &recorder{}
	r := &run{
		job: job, settings: job.Settings, log: log, out: out, quit: make(chan struct{}),
		secrets: &secrets{recorder: shared}, toolSecrets: &secrets{allowed: append([]string{}, job.Settings.ToolEnv...), recorder: shared},
	}
	settings := &r.settings
	if settings.ApprovedTypes == nil {
		settings.ApprovedTypes = slices.Clone(definition.DefaultApprovedTypes)
	}
	settings.ToolTimeout = cmp.Or(settings.ToolTimeout, 5*time.Minute)
	settings.MaxToolOutput = cmp.Or(settings.MaxToolOutput, 256<<10)
	out.limit = cmp.Or(settings.MaxOutput, 32<<20)
	settings.MaxRequests = cmp.Or(settings.MaxRequests, 500)
	r.gate = &gate{quit: r.quit, onWait: r.reportWait, prices: settings.Prices, log: log, secrets: r.secrets, isOver: r.isOver, onLimit: func() { r.end(errRequestLimit) }, onUsage: r.reportUsage}
	ctx, r.cancel = context.WithCancelCause(ctx)
	return ctx, r, nil
}

// startTimeout returns how long a toolset may take to start.
func (r *run) startTimeout() time.Duration { return min(r.settings.ToolTimeout, 30*time.Second) }

// environ returns the environment of the agent's programs. passEnv names additional variables of this process.
func (r *run) environ(passEnv []string) []string {
	env := append([]string{"HOME=" + r.home}, r.processMarks...)
	for _, name := range append([]string{"PATH", "LANG", "LC_ALL", "TZ", "TMPDIR"}, passEnv...) {
		if v, ok := os.LookupEnv(name); ok && !fleet.IsReservedVariable(name) {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// reportUsage reports the usage and the cost so far, so that they are known even if the run is killed.
func (r *run) reportUsage() {
	if err := r.out.writeUsage(r.setUsage); err != nil {
		r.log.Error("cannot write what the run has used", "error", err)
	}
}

// reportWait reports that the run waits for a larger allowance.
func (r *run) reportWait() {
	const text = "it has used what is reserved for it, and waits until Fleet reserves more"
	data := fleet.Step{Type: fleet.StepWarning, Message: text}
	r.out.writeLine(driver.OutputLine{Step: true, Text: "warning: " + text, Data: data.JSON()})
}

// whyEnded returns why no new request may start, or nil.
func (r *run) whyEnded() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.endReason
}

// isOver reports whether no new request may start.
func (r *run) isOver() bool { return r.whyEnded() != nil }

// end ends the run. why is the reason. Active requests to the model are completed, and tools are cancelled. If end is called
// several times, the first reason counts.
func (r *run) end(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.endReason == nil {
		r.endReason = why
	}
	select {
	case <-r.quit:
	default:
		close(r.quit)
	}
}

// kill ends the run and cancels everything in it. why is the reason.
func (r *run) kill(why error) {
	r.end(why)
	r.cancel(why)
}

// report accepts the result that the agent reports. Only the first report counts, and only while the run is not over. report
// does not cancel the tools, because the report itself is a tool call that must still return.
func (r *run) report(summary string, payload []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reportedOutcome == nil && r.endReason == nil {
		o := &fleet.Outcome{Status: fleet.TaskCompleted, Summary: r.secrets.hide(summary), Reported: true}
		if payload != nil {
			o.Payload = []byte(r.secrets.hide(string(payload)))
		}
		r.reportedOutcome, r.endReason = o, errReported
	}
}

// hide returns an error with the same text, without secrets.
func (r *run) hide(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(r.secrets.hide(err.Error()))
}

// execute executes the task and returns its outcome.
func (r *run) execute(ctx context.Context, prompt string) fleet.Outcome {
	final, err := r.converse(ctx, prompt)
	r.cancel(nil)
	return r.outcome(final, err)
}

// outcome returns the outcome of the run. final is the agent's last text, and err the error of the conversation.
func (r *run) outcome(final string, err error) fleet.Outcome {
	r.mu.Lock()
	why, reported := r.endReason, r.reportedOutcome
	r.mu.Unlock()
	if r.answerComplete {
		why = nil
	}
	final = strings.TrimSpace(driver.CleanText([]byte(r.secrets.hide(final))))
	o := fleet.Outcome{Status: fleet.TaskCompleted, Summary: fleet.Shorten(final, maxSummary)}
	if final != "" {
		o.Payload = []byte(final)
	}
	fail := func(format string, args ...any) {
		o.Status, o.Reason = fleet.TaskFailed, fleet.Shorten(r.secrets.hide(fmt.Sprintf(format, args...)), maxReason)
	}
	switch {
	case reported != nil:
		o = *reported
	case errors.Is(why, errInterrupted):
		o.Status, o.Reason = fleet.TaskStopped, why.Error()
	case errors.Is(why, errOutputLimit):
		fail("its output exceeded the limit of %d bytes", r.out.limit)
	case errors.Is(why, errRequestLimit):
		fail("it has sent %d requests to its model, which is the limit for a task", r.gate.requestCount())
		o.ReasonCode = fleet.CodeMaxTurns
	case why != nil:
		fail("%v", why)
	case err != nil:
		fail("%v", err)
	case final == "" && r.toolCalls.Load() == 0:
		fail("the model gave an empty answer")
	}
	if len(r.job.Options.OutputSchema) > 0 && o.Status == fleet.TaskCompleted {
		o.Output = driver.FindObject(final)
	}
	r.setUsage(&o)
	return o
}

// setUsage sets the usage and the cost of the run in the outcome.
func (r *run) setUsage(o *fleet.Outcome) {
	o.Usage, o.CostUSD = r.gate.usageSoFar()
	o.Usage.ToolCalls, o.Turns = int(r.toolCalls.Load()), r.gate.requestCount()
}

// converse continues the agent's conversation with the prompt until the agent has finished. It returns the agent's last
// text.
func (r *run) converse(ctx context.Context, prompt string) (final string, err error) {
	defer func() {
		if p := recover(); p != nil {
			r.log.Error("run panicked", "panic", p, "stack", string(debug.Stack()))
			err = errors.New("the agent's program panicked; its stderr has the details")
		}
	}()
	if r.job.NoSymlinks {
		err = sandbox.CheckNoSymlinks(r.job.WorkDir)
	} else {
		err = os.MkdirAll(r.job.WorkDir, 0o700)
	}
	if err != nil {
		return "", fmt.Errorf("cannot use its directory %s", r.job.WorkDir)
	}
	conversation, items, err := openConversation(filepath.Join(r.job.StateDir, "conversation.jsonl"))
	if err != nil {
		return "", r.logFailure("cannot read the agent's conversation", err)
	}
	team, err := r.newTeam(ctx) // also makes the secrets known
	if r.isOver() {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer r.stopTools(team)
	w := &watcher{run: r}
	rt, err := runtime.New(team.Team, runtime.WithCurrentAgent(team.mainAgent), runtime.WithSessionStore(conversation), runtime.WithManagedOAuth(false),
		runtime.WithWorkingDir(r.job.WorkDir), runtime.WithEnv(r.environ(r.job.Config.PassEnv)))
	if err != nil {
		return "", err
	}
	s := session.New(session.WithTitle(r.job.UID), session.WithToolsApproved(true), session.WithWorkingDir(r.job.WorkDir), session.WithSendUserMessage(false))
	s.Messages = items
	conversation.id = s.ID
	conversation.onError = func(err error) { r.end(r.logFailure("cannot write the agent's conversation", err)) }
	w.rt = rt
	s.AddMessage(session.UserMessage(driver.CleanText([]byte(prompt))))
	conversation.save(s)
	if !w.watch(ctx, rt.RunStream(ctx, s)) {
		return w.text.String(), w.err // the loop is still running, so its state must not be accessed
	}
	conversation.save(s)
	r.answerComplete = w.err == nil && !r.isOver()
	return lastText(s.Messages[len(items):]), w.err
}

// logFailure logs an error of this machine, and returns an error without its details for users.
func (r *run) logFailure(what string, err error) error {
	r.log.Error(what, "error", err)
	return errors.New(what)
}

// stopTools stops the agents' toolsets.
func (r *run) stopTools(team *agentTeam) {
	ctx, cancel := context.WithTimeout(context.Background(), endGrace)
	defer cancel()
	var wg sync.WaitGroup
	for _, g := range team.guards {
		wg.Go(func() {
			if err := g.Stop(ctx); err != nil {
				r.log.WarnContext(ctx, "cannot stop an agent's tools", "error", err)
			}
		})
	}
	wg.Wait()
}

// lastText returns the last text that an agent wrote, or "".
func lastText(items []session.Item) string {
	for i := len(items) - 1; i >= 0; i-- {
		if m := items[i].Message; m != nil && m.Message.Role == chat.MessageRoleAssistant && strings.TrimSpace(m.Message.Content) != "" {
			return m.Message.Content
		}
	}
	return ""
}
