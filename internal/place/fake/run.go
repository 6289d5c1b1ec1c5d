package fake

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"fleet/internal/fleet"
)

// run is a dispatched task. The world's mutex guards it; task, script, workspace and gate never change.
type run struct {
	task           fleet.Run
	script         script
	workspace      *workspace
	gate           *Gate // the run waits here before it reads its prompt; may be nil
	first          *run  // the first attempt of the task; the run itself if there was no earlier attempt
	failFirstCount int   // how often fail-first was executed; only used in the first attempt
	claimed        bool  // whether the agent started the run by itself, and a task was assigned to it later

	outputs      []fleet.Output
	questions    []fleet.Question  // all questions so far
	openCalls    int               // number of open tool calls
	messages     []string          // all messages so far
	messageIDs   map[string]bool   // of all messages
	messagesRead int               // number of messages that the agent has read
	lostReason   string            // why a new conversation was started, for the next output
	changes      *fleet.Changes    // nil without changes
	patch        map[string]string // diffs by path
	checks       map[string]*check // by the check's id
	payload      []byte
	output       []byte // set by the instruction output
	gap          fleet.Gap
	cost         float64
	turns        int
	usage        fleet.Usage
	session      string

	outcome  fleet.Outcome
	done     chan struct{} // closed at the end
	changed  chan struct{} // closed and replaced by a new channel at every change
	deadline *time.Timer
}

func (r *run) ended() bool { return isClosed(r.done) }

func (r *run) wake() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// startRun starts a run of the task in the workspace. A run with feedback is another attempt of the workspace's last run. The
// world's mutex must be held.
func (p *Place) startRun(w *workspace, task fleet.Run) *run {
	r := &run{task: task, script: parseScript(instructionsOf(task)), workspace: w, gate: p.runGate, messageIDs: map[string]bool{}, done: make(chan struct{}), changed: make(chan struct{})}
	if r.first = r; task.Feedback != "" && w.run != nil {
		r.first = w.run.first
	}
	w.run = r
	p.runs[task.TaskID] = r
	p.runCounts[task.TaskID]++
	w.logf("run %s begins", task.TaskID)
	p.setDeadline(r, task.Timeout)
	p.goroutines.Go(func() { p.executeScript(r) })
	return r
}

// setDeadline makes the run fail after the duration d, or never if d is not positive. The world's mutex must be held.
func (p *Place) setDeadline(r *run, d time.Duration) {
	if d <= 0 {
		return
	}
	r.deadline = time.AfterFunc(d, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.endRun(r, fleet.Outcome{Status: fleet.TaskFailed, Reason: fmt.Sprintf("it took longer than its time limit of %s", d)})
	})
}

// claimRun assigns to the task the run that the agent has started by itself. The world's mutex must be held.
func (p *Place) claimRun(w *workspace, task fleet.Run) error {
	r := w.selfStartedRun
	if r == nil || r.claimed {
		return fleet.Errorf(fleet.ReasonTaskNotFound, "agent %q has not started anything by itself", w.Name)
	}
	r.claimed = true
	p.runs[task.TaskID] = r
	p.runCounts[task.TaskID]++
	if !r.ended() {
		p.setDeadline(r, task.Timeout)
	}
	return nil
}

// endRun ends the run with the outcome. Only the first call for a run has an effect. The world's mutex must be held.
func (p *Place) endRun(r *run, o fleet.Outcome) {
	if r.ended() {
		return
	}
	if r.deadline != nil {
		r.deadline.Stop()
	}
	o.Terminal, o.HasConversation, o.SessionID = r.script.terminal, r.session != "", r.session
	o.Payload, o.Gap, o.CostUSD, o.Turns, o.Usage, o.Output = r.payload, r.gap, r.cost, r.turns, r.usage, r.output
	for i := range r.questions {
		if r.questions[i].Status == fleet.QuestionWaiting {
			r.questions[i].Status = fleet.QuestionWithdrawn
		}
	}
	r.outcome = o
	r.workspace.logf("run %s ended: %s %s", r.task.TaskID, o.Status, o.Reason)
	close(r.done)
	r.wake()
}

// addOutput adds a printed text to the run's outputs. The world's mutex must be held.
func (p *Place) addOutput(r *run, text string) { p.appendOutput(r, fleet.Output{Text: text}) }

// addStep adds a step to the run's outputs. data is its JSON form; nil if it has none. The world's mutex must be held.
func (p *Place) addStep(r *run, text string, data []byte) {
	p.appendOutput(r, fleet.Output{IsStep: true, Text: text, Data: data})
}

// appendOutput sets the remaining fields of the output and adds it to the run, unless the run has ended. The world's mutex must be held.
func (p *Place) appendOutput(r *run, o fleet.Output) {
	if r.ended() {
		return
	}
	o.Cursor, o.RunningToolCalls, o.Terminal, o.ConversationLost = strconv.Itoa(len(r.outputs)+1), r.openCalls, r.script.terminal, r.lostReason
	r.outputs = append(r.outputs, o)
	r.lostReason = ""
	r.workspace.logf("%s", o.Text)
	r.wake()
}

// executeScript executes the script of the run.
func (p *Place) executeScript(r *run) {
	if r.gate != nil {
		r.gate.arrive()
		select {
		case <-r.gate.open:
		case <-r.done:
			return
		}
	}
	for _, in := range r.script.instructions {
		switch in.verb {
		case "work":
			select {
			case <-time.After(in.duration):
			case <-r.done:
			}
		case "wait":
			p.arrive(in.text)
			select {
			case <-p.gate(in.text).open:
			case <-r.done:
			}
		case "listen":
			p.listen(r)
		case "ask", "ask-permission", "ask-policy", "ask-within":
			p.ask(r, in)
		default:
			p.mu.Lock()
			p.execute(r, in)
			p.mu.Unlock()
		}
		if r.ended() {
			return
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endRun(r, fleet.Outcome{Status: fleet.TaskCompleted, Summary: r.script.defaultSummary})
}

// execute executes an instruction that takes no time. The world's mutex must be held.
func (p *Place) execute(r *run, in instruction) {
	switch in.verb {
	case "echo":
		p.addOutput(r, in.text)
	case "open":
		r.openCalls = in.count
		p.addOutput(r, "")
	case "step":
		p.addStep(r, in.text, nil)
	case "warn":
		p.addStep(r, "warning: "+in.text, (&fleet.Step{Type: fleet.StepWarning, Message: in.text}).JSON())
	case "data":
		if s := fleet.ParseStep([]byte(in.text)); s != nil {
			p.addStep(r, strings.TrimSpace(string(s.Type)+" "+s.Name), s.JSON())
		}
	case "lost":
		r.lostReason = in.text
		p.addStep(r, "a new conversation starts: "+in.text, nil)
	case "repeat":
		for i := range in.count {
			p.addOutput(r, fmt.Sprintf("%s %d", in.text, i+1))
		}
	case "payload":
		if r.payload != nil {
			r.payload = append(r.payload, '\n')
		}
		r.payload = append(r.payload, in.text...)
	case "binary":
		r.payload = in.bytes
	case "gap":
		r.gap = in.gap
	case "change":
		r.change(in.text)
	case "cost":
		r.cost, r.turns = in.cost, in.count
	case "output":
		r.output = []byte(in.text)
	case "usage":
		r.usage = in.usage
	case "session":
		r.session = in.text
	case "done":
		p.endRun(r, fleet.Outcome{Status: fleet.TaskCompleted, Summary: cmp.Or(strings.ReplaceAll(in.text, `\n`, "\n"), r.script.defaultSummary)})
	case "fail":
		p.endRun(r, fleet.Outcome{Status: fleet.TaskFailed, Reason: cmp.Or(in.text, "the agent gave up")})
	case "fail-first":
		if r.first.failFirstCount++; r.first.failFirstCount <= in.count {
			p.endRun(r, fleet.Outcome{Status: fleet.TaskFailed, ReasonCode: fleet.ReasonCode(in.text), Reason: "the model's API failed"})
		}
	case "exit":
		o := fleet.Outcome{Status: fleet.TaskCompleted, Summary: r.script.defaultSummary, ExitCode: &in.count}
		if in.count != 0 {
			o = fleet.Outcome{Status: fleet.TaskFailed, Reason: fmt.Sprintf("the agent ended with exit code %d", in.count), ExitCode: &in.count}
		}
		p.endRun(r, o)
	case "crash":
		p.endRun(r, fleet.Outcome{Status: fleet.TaskFailed, Reason: "the agent's process died", ReasonCode: fleet.CodeRunnerLost})
	}
}

// listen waits for the next message and prints it. It returns early if the run ends.
func (p *Place) listen(r *run) {
	for {
		p.mu.Lock()
		changed := r.changed
		if r.messagesRead < len(r.messages) {
			p.addOutput(r, r.messages[r.messagesRead])
			r.messagesRead++
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		select {
		case <-changed:
		case <-r.done:
			return
		}
	}
}

// defaultQuestionTimeout is the default time after which a question expires.
const defaultQuestionTimeout = time.Hour

// ask asks a question, waits until it is answered or expires, and prints the result.
func (p *Place) ask(r *run, in instruction) {
	now := p.config.Now()
	q := fleet.Question{Kind: fleet.AskText, Status: fleet.QuestionWaiting, AskedAt: now}
	text, options, _ := strings.Cut(in.text, " | ")
	switch in.verb {
	case "ask-permission":
		tool, input, _ := strings.Cut(in.text, " ")
		q.Kind, q.Tool, q.Input = fleet.AskPermission, tool, []byte(input)
		if input == "" {
			q.Input = nil
		}
		q.Rules = []string{tool}
	case "ask-policy":
		q.Kind, q.Status, q.AnsweredBy, q.AnsweredAt = fleet.AskPermission, fleet.QuestionAnswered, fleet.ByPolicy, now
		q.Tool, q.Answer, _ = strings.Cut(in.text, " ")
	default:
		q.Text = text
		if options != "" {
			q.Options = strings.Split(options, " | ")
		}
	}
	timeout := defaultQuestionTimeout
	if in.duration > 0 {
		timeout = in.duration
	}
	q.ExpiresAt = now.Add(timeout)
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(r.questions)
	q.ID = strconv.Itoa(n + 1)
	r.questions = append(r.questions, q)
	r.wake()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for expired := false; ; {
		current := r.questions[n]
		switch {
		case r.ended():
			return
		case current.Status == fleet.QuestionAnswered:
			p.addOutput(r, "answer: "+strings.TrimSpace(current.Answer+" "+current.Message))
			return
		case expired:
			r.questions[n].Status = fleet.QuestionExpired
			p.addOutput(r, "no answer")
			return
		}
		changed := r.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-r.done:
		case <-timer.C:
			expired = true
		}
		p.mu.Lock()
	}
}

// viewFrom returns a consistent view of the run: the outputs from position n, the questions, whether the run has ended,
// and a channel that is closed at the next change.
func (p *Place) viewFrom(r *run, n int) (outputs []fleet.Output, questions []fleet.Question, ended bool, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(r.outputs[n:]), slices.Clone(r.questions), r.ended(), r.changed
}

// outcomeOf returns the outcome of an ended run.
func (p *Place) outcomeOf(r *run) fleet.Outcome {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := r.outcome
	o.Payload = slices.Clone(o.Payload)
	if o.ExitCode != nil {
		o.ExitCode = new(*o.ExitCode)
	}
	return o
}
