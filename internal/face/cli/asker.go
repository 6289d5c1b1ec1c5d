package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	fleetv1 "fleet/gen/fleet/v1"
)

// asker asks the person at the terminal what the agent asks during a task that the command follows. The person answers with one
// key. If a question is answered elsewhere, its prompt goes.
type asker struct {
	s     *session
	task  *fleetv1.Task
	wake  chan struct{} // gets a value when a question may have changed
	keys  chan key      // what the person types; nil before the first question
	where string        // where the agent works; empty if that is not known
}

// key is a key that the person pressed.
type key struct {
	char byte
	at   time.Time
}

// asking begins to ask the person about the task's questions. It returns nil if there is no person at a terminal. The function stop
// must be called before the command ends.
func (s *session) asking(ctx context.Context, task *fleetv1.Task) (a *asker, stop func()) {
	if !s.asks() || s.quiet || !s.output.forPeople() {
		return nil, func() {}
	}
	a = &asker{s: s, task: task, wake: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		a.run(ctx)
	}()
	return a, func() { cancel(); <-over }
}

// saw looks at an event of the task. It prints how to answer a question if there is no person at a terminal.
func (a *asker) saw(s *session, e *fleetv1.Event) {
	switch typ := e.GetType(); {
	case typ != fleetv1.Event_task_question && typ != fleetv1.Event_task_answer && typ != fleetv1.Event_task_ended:
	case a == nil && typ == fleetv1.Event_task_question && !s.asks():
		s.hint(`See the question: fleet questions %s; then answer it: fleet answer ID allow, deny or "..."`, e.GetAgentName())
	case a != nil:
		select {
		case a.wake <- struct{}{}:
		default:
		}
	}
}

// run asks one question after the other until ctx is done.
func (a *asker) run(ctx context.Context) {
	defer a.s.screen.ask("")
	shown := ""
	for {
		q := a.next(ctx)
		if q.GetId() != shown {
			a.s.screen.ask("")
		}
		if q != nil && q.GetId() != shown {
			shown = q.GetId()
			a.show(ctx, q)
		}
		answer := a.wait(ctx, q)
		if ctx.Err() != nil {
			return
		}
		if answer == nil {
			continue
		}
		a.s.screen.ask("")
		if _, err := a.s.fleet.AnswerQuestion(ctx, answer); err != nil && ctx.Err() == nil {
			a.s.note("The answer was not accepted: %s.", a.s.explain(ctx, err, a.s.target).message)
			shown = ""
		}
	}
}

// next returns the oldest open question of the task, or nil.
func (a *asker) next(ctx context.Context) *fleetv1.Question {
	resp, err := a.s.fleet.ListQuestions(ctx, &fleetv1.ListQuestionsRequest{TaskId: a.task.GetId(), Limit: new(int32(100))})
	if err != nil || len(resp.GetQuestions()) == 0 { // after an error, further events lead to the next try
		return nil
	}
	return resp.GetQuestions()[len(resp.GetQuestions())-1]
}

// show shows the question and its possible answers.
func (a *asker) show(ctx context.Context, q *fleetv1.Question) {
	if a.where == "" {
		if resp, err := a.s.fleet.ShowAgent(ctx, &fleetv1.ShowAgentRequest{AgentName: strings.TrimSuffix(q.GetAgentName()+"@"+q.GetOwner(), "@")}); err == nil {
			a.where = resp.GetAgent().GetLocation()
		}
	}
	asked := questionText(q)
	if command := q.GetInput().GetFields()["command"].GetStringValue(); command != "" {
		asked = q.GetTool() + ": " + command
	}
	text := q.GetAgentName() + " asks: " + asked
	if a.where != "" && q.GetKind() == fleetv1.Question_permission {
		text += " (in " + a.where + ")"
	}
	a.s.screen.line(printable(text))
	a.s.showRules(q)
	for i, option := range q.GetOptions() {
		if q.GetKind() != fleetv1.Question_permission && i < maxChoices {
			a.s.screen.line(printable(fmt.Sprintf("  %d  %s", i+1, option)))
		}
	}
	if !a.answers(q) {
		a.s.hint("Answer it: fleet answer %s %s", q.GetId(), `"..."`)
	}
}

// keysOf says with which keys the person can answer the question.
func keysOf(q *fleetv1.Question) string {
	if q.GetKind() == fleetv1.Question_permission {
		return choicesOf(q)
	}
	return fmt.Sprintf("1 to %d, or in another terminal: fleet answer %s \"...\"", min(len(q.GetOptions()), maxChoices), q.GetId())
}

// maxChoices is the number of answers that can be chosen with one key.
const maxChoices = 9

// answers reports whether the person can answer the question with one key.
func (a *asker) answers(q *fleetv1.Question) bool {
	if q.Access != nil && q.GetAccess() == fleetv1.Share_view {
		return false
	}
	return q.GetKind() == fleetv1.Question_permission || len(q.GetOptions()) > 0
}

// wait waits for the person's answer. It returns nil if there may be another question, or none, or ctx is done.
func (a *asker) wait(ctx context.Context, q *fleetv1.Question) *fleetv1.AnswerQuestionRequest {
	var shown time.Time
	if q != nil && a.answers(q) {
		in, _ := a.s.deps.Stdin.(*os.File)
		restore, err := singleKeys(in)
		if err == nil {
			defer restore()
		}
		if a.keys == nil {
			a.keys = make(chan key)
			go readKeys(in, a.keys)
		}
		shown = time.Now()
		a.s.screen.ask("? " + printable(keysOf(q)))
	}
	for {
		select {
		case k := <-a.keys:
			if q == nil || k.at.Before(shown) { // typed before the question was shown
				continue
			}
			if answer := keyAnswer(q, k.char); answer != nil {
				return answer
			}
		case <-a.wake:
			if q == nil || a.next(ctx).GetId() != q.GetId() {
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// keyAnswer returns the answer that the key stands for, or nil.
func keyAnswer(q *fleetv1.Question, char byte) *fleetv1.AnswerQuestionRequest {
	if q.GetKind() == fleetv1.Question_permission {
		return permissionAnswer(q, string(char))
	}
	if i := int(char - '1'); char >= '1' && char <= '9' && i < len(q.GetOptions()) {
		return &fleetv1.AnswerQuestionRequest{QuestionId: q.GetId(), Answer: q.GetOptions()[i]}
	}
	return nil
}

// readKeys passes on what the person types. It ends with the process, because nothing else ends a read of a terminal.
func readKeys(in *os.File, keys chan<- key) {
	for b := make([]byte, 1); ; {
		if n, err := in.Read(b); err != nil || n == 0 {
			return
		}
		keys <- key{char: b[0], at: time.Now()}
	}
}
