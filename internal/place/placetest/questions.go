package placetest

import (
	"context"
	"slices"
	"time"

	"fleet/internal/fleet"
)

// answerTo returns the question with an answer, in the form in which the core passes it to a place.
func answerTo(r fleet.Run, q fleet.Question, answer, message string) fleet.Question {
	q.ID, q.TaskID = r.TaskID+"-"+q.ID, r.TaskID
	q.Answer, q.Message, q.AnsweredBy, q.AnsweredAt = answer, message, "alice", time.Now()
	return q
}

func (x *fixture) asks() fleet.Agent {
	x.Helper()
	x.Equal(x.h.Prompts.Asks.Text != "", x.b.Traits().Asks, "set Prompts.Asks exactly if the place has the trait Asks")
	return x.asking(x.h.Prompts.Asks)
}

// asking returns a running agent in the project of the prompt.
func (x *fixture) asking(p Prompt) fleet.Agent {
	x.Helper()
	if p.Project != "" {
		return x.readyIn(p.Project)
	}
	return x.ready()
}

func asks(x *fixture) {
	p := x.h.Prompts.Asks
	a := x.asks()
	if p.Text == "" {
		r, f := x.working(a, x.h.Prompts.Works)
		q := answerTo(r, fleet.Question{ID: "1", Kind: fleet.AskText}, "tabs", "")
		x.reason(x.b.Connect(a).Answer(x.ctx, r, q), fleet.ReasonUnimplemented, fleet.ReasonQuestionNotFound)
		x.stopped(a, r, f)
		return
	}
	r, f := x.working(a, p)
	permission := f.question("", fleet.QuestionWaiting)
	x.Equal(fleet.AskPermission, permission.Kind)
	x.Equal("Bash", permission.Tool)
	x.Contains(string(permission.Input), "touch asked")
	x.Less(permission.AskedAt, permission.ExpiresAt)
	never := answerTo(r, fleet.Question{ID: "999"}, fleet.AnswerAllow, "")
	x.reason(x.b.Connect(a).Answer(x.ctx, r, never), fleet.ReasonQuestionNotFound)
	given := answerTo(r, permission, fleet.AnswerDeny, "not \"now\" $HOME")
	x.NoError(x.b.Connect(a).Answer(x.ctx, r, given))
	x.NoError(x.b.Connect(a).Answer(x.ctx, r, given)) // a server that did not receive the first result repeats the call
	x.NoError(x.b.Connect(a).Answer(x.ctx, r, answerTo(r, permission, fleet.AnswerAllow, "")), "the first answer counts")

	question := f.question("", fleet.QuestionWaiting)
	for question.ID == permission.ID {
		f.until("not \"now\" $HOME")
		question = f.question("", fleet.QuestionWaiting)
	}
	x.Equal(fleet.AskText, question.Kind)
	x.Equal("tabs or spaces?", question.Text)
	x.Equal([]string{"tabs", "spaces"}, question.Options)
	x.NoError(x.b.Connect(a).Answer(x.ctx, r, answerTo(r, question, "neither: ✓", "")))
	outputs, o, err := f.end()
	x.NoError(err)
	x.Equal(fleet.TaskCompleted, o.Status, "outcome: %+v", o)
	x.says(outputs, append(slices.Clone(p.Lines), fleet.AnswerDeny, "neither: ✓")...)
	told := f.question(permission.ID, fleet.QuestionAnswered)
	x.Equal([]string{fleet.AnswerDeny, "not \"now\" $HOME", "alice"}, []string{told.Answer, told.Message, told.AnsweredBy})
	late := answerTo(r, fleet.Question{ID: "999"}, "x", "")
	x.reason(x.b.Connect(a).Answer(x.ctx, r, late), fleet.ReasonQuestionNotFound, fleet.ReasonNoRunningTask)
}

func asksInVain(x *fixture) {
	p := x.h.Prompts.UnansweredQuestion
	x.need(p, "questions that expire")
	a := x.asking(p)
	r := x.dispatch(a, p)
	f := x.follow(x.ctx, a, r, "")
	outputs, o, err := f.end()
	x.NoError(err)
	x.Equal(fleet.TaskCompleted, o.Status, "outcome: %+v", o)
	x.says(outputs, p.Reply)
	q := f.question("", fleet.QuestionExpired)
	x.reason(x.b.Connect(a).Answer(x.ctx, r, answerTo(r, q, "too late", "")), fleet.ReasonQuestionClosed, fleet.ReasonNoRunningTask)
}

func asksAndEnds(x *fixture) {
	p := x.h.Prompts.Asks
	x.need(p, "questions")
	a := x.asking(p)
	r, f := x.working(a, p)
	q := f.question("", fleet.QuestionWaiting)
	x.stopped(a, r, f)
	x.reason(x.b.Connect(a).Answer(x.ctx, r, answerTo(r, q, fleet.AnswerAllow, "")), fleet.ReasonNoRunningTask, fleet.ReasonQuestionClosed)
}

func asksTakeOver(x *fixture) {
	p := x.h.Prompts.Asks
	x.need(p, "questions")
	a := x.asking(p)
	first, cancel := context.WithCancel(x.ctx)
	r := x.dispatch(a, p)
	f := x.follow(first, a, r, "")
	outputs := f.until(p.Lines[0])
	asked := f.question("", fleet.QuestionWaiting)
	cancel()
	_, _, err := f.end()
	x.ErrorIs(err, context.Canceled)
	x.reopen()
	f = x.follow(x.ctx, a, r, outputs[len(outputs)-1].Cursor)
	again := f.question("", fleet.QuestionWaiting)
	x.Equal(asked.ID, again.ID, "Follow must report the open question again, whatever the cursor")
	x.Equal(asked.Input, again.Input)
	x.NoError(x.b.Connect(a).Answer(x.ctx, r, answerTo(r, again, fleet.AnswerAllow, "")))
	f.until(fleet.AnswerAllow)
	x.stopped(a, r, f)
}
