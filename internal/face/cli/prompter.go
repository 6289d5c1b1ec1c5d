package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	fleetv1 "fleet/gen/fleet/v1"
)

// prompter shows the agent's questions to the person at the terminal while the command follows a task. The person answers with one key. A
// question that somebody answers elsewhere disappears.
type prompter struct {
	s        *session
	taskID   string
	wake     chan struct{} // gets a value when a question may have changed
	keys     chan key      // what the person types; nil before the first question that a key can answer
	location string        // where the agent works; empty if that is not known
}

// key is a key that the person pressed.
type key struct {
	char byte
	at   time.Time
}

// startPrompter starts a prompter for the questions of the task. p is nil if the command is not interactive, if --quiet is set, or if the
// output is for programs. The function stop must be called before the command ends.
func (s *session) startPrompter(ctx context.Context, taskID string) (p *prompter, stop func()) {
	if !s.isInteractive() || s.quiet || !s.output.forPeople() {
		return nil, func() {}
	}
	p = &prompter{s: s, taskID: taskID, wake: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.run(ctx)
	}()
	return p, func() { cancel(); <-done }
}

// handleEvent wakes the prompter if the event may have changed a question. If p is nil and the command is not interactive, handleEvent prints
// how to answer a new question.
func (p *prompter) handleEvent(s *session, e *fleetv1.Event) {
	switch typ := e.GetType(); {
	case typ != fleetv1.Event_task_question && typ != fleetv1.Event_task_answer && typ != fleetv1.Event_task_ended:
	case p == nil && typ == fleetv1.Event_task_question && !s.isInteractive():
		s.hint(`See the question: fleet questions %s; then answer it: fleet answer ID allow, deny or "..."`, s.ref(e.GetAgentName(), e.GetOwner()))
	case p != nil:
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
}

// run asks the open questions one at a time, the oldest first, until ctx is done.
func (p *prompter) run(ctx context.Context) {
	defer p.s.screen.setQuestion("")
	shownID := ""
	for {
		q := p.oldestQuestion(ctx)
		if q.GetId() != shownID {
			p.s.screen.setQuestion("")
		}
		if q != nil && q.GetId() != shownID {
			shownID = q.GetId()
			p.showQuestion(ctx, q)
		}
		answer := p.waitForAnswer(ctx, q)
		if ctx.Err() != nil {
			return
		}
		if answer == nil {
			continue
		}
		p.s.screen.setQuestion("")
		if _, err := p.s.fleet.AnswerQuestion(ctx, answer); err != nil && ctx.Err() == nil {
			p.s.note("The answer was not accepted: %s.", p.s.explain(ctx, err, p.s.target).message)
			shownID = ""
		}
	}
}

// oldestQuestion returns the oldest open question of the task, or nil if there is none or the call fails.
func (p *prompter) oldestQuestion(ctx context.Context) *fleetv1.Question {
	resp, err := p.s.fleet.ListQuestions(ctx, &fleetv1.ListQuestionsRequest{TaskId: p.taskID, Limit: new(int32(100))})
	if err != nil || len(resp.GetQuestions()) == 0 { // after an error, further events lead to the next try
		return nil
	}
	return resp.GetQuestions()[len(resp.GetQuestions())-1]
}

// showQuestion shows the question and its possible answers.
func (p *prompter) showQuestion(ctx context.Context, q *fleetv1.Question) {
	if p.location == "" {
		if resp, err := p.s.fleet.ShowAgent(ctx, &fleetv1.ShowAgentRequest{AgentName: strings.TrimSuffix(q.GetAgentName()+"@"+q.GetOwner(), "@")}); err == nil {
			p.location = resp.GetAgent().GetLocation()
		}
	}
	subject := questionText(q)
	if command := q.GetInput().GetFields()["command"].GetStringValue(); command != "" {
		subject = q.GetTool() + ": " + command
	}
	text := q.GetAgentName() + " asks: " + subject
	if p.location != "" && q.GetKind() == fleetv1.Question_permission {
		text += " (in " + p.location + ")"
	}
	p.s.screen.printErrLine(printable(text))
	p.s.showRules(q)
	for i, option := range q.GetOptions() {
		if q.GetKind() != fleetv1.Question_permission && i < maxChoices {
			p.s.screen.printErrLine(printable(fmt.Sprintf("  %d  %s", i+1, option)))
		}
	}
	if !canAnswerWithKey(q) {
		p.s.hint("Answer it: fleet answer %s %s", q.GetId(), `"..."`)
	}
}

// keysText returns a text that says which keys answer the question.
func keysText(q *fleetv1.Question) string {
	if q.GetKind() == fleetv1.Question_permission {
		return choicesText(q)
	}
	return fmt.Sprintf("1 to %d, or in another terminal: fleet answer %s \"...\"", min(len(q.GetOptions()), maxChoices), q.GetId())
}

// maxChoices is the number of answers that can be chosen with one key.
const maxChoices = 9

// canAnswerWithKey reports whether the person can answer the question with one key.
func canAnswerWithKey(q *fleetv1.Question) bool {
	if q.Access != nil && q.GetAccess() == fleetv1.Share_view {
		return false
	}
	return q.GetKind() == fleetv1.Question_permission || len(q.GetOptions()) > 0
}

// waitForAnswer waits for the person's answer to q, which is nil if no question is open. It returns nil if q may no longer be the oldest open
// question, or if ctx is done.
func (p *prompter) waitForAnswer(ctx context.Context, q *fleetv1.Question) *fleetv1.AnswerQuestionRequest {
	var shownAt time.Time
	if q != nil && canAnswerWithKey(q) {
		in, _ := p.s.deps.Stdin.(*os.File)
		restore, err := passSingleKeys(in)
		if err == nil {
			defer restore()
		}
		if p.keys == nil {
			p.keys = make(chan key)
			go readKeys(in, p.keys)
		}
		shownAt = time.Now()
		p.s.screen.setQuestion("? " + printable(keysText(q)))
	}
	for {
		select {
		case k := <-p.keys:
			if q == nil || k.at.Before(shownAt) { // typed before the question was shown
				continue
			}
			if answer := keyAnswer(q, k.char); answer != nil {
				return answer
			}
		case <-p.wake:
			if q == nil || p.oldestQuestion(ctx).GetId() != q.GetId() {
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// keyAnswer returns the answer that the key stands for, or nil if it stands for none.
func keyAnswer(q *fleetv1.Question, char byte) *fleetv1.AnswerQuestionRequest {
	if q.GetKind() == fleetv1.Question_permission {
		return permissionAnswer(q, string(char))
	}
	if i := int(char - '1'); char >= '1' && char <= '9' && i < len(q.GetOptions()) {
		return &fleetv1.AnswerQuestionRequest{QuestionId: q.GetId(), Answer: q.GetOptions()[i]}
	}
	return nil
}

// readKeys passes on what the person types until the read fails. The read of a terminal cannot be cancelled, so readKeys usually runs until
// the process ends.
func readKeys(in *os.File, keys chan<- key) {
	for b := make([]byte, 1); ; {
		switch _, err := in.Read(b); {
		case errors.Is(err, io.EOF): // Ctrl-D while no question is open, or the terminal is gone
			time.Sleep(100 * time.Millisecond)
		case err != nil:
			return
		default:
			keys <- key{char: b[0], at: time.Now()}
		}
	}
}
