package placetest

import (
	"cmp"
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

func (x *fixture) readyAsker() fleet.Agent {
	x.Helper()
	x.Equal(x.harness.Prompts.Asks.Text != "", x.place.Traits().Asks, "set Prompts.Asks exactly if the place has the trait Asks")
	return x.readyAgentFor(x.harness.Prompts.Asks)
}

// readyAgentFor returns a running agent in the project of the prompt.
func (x *fixture) readyAgentFor(p Prompt) fleet.Agent {
	x.Helper()
	return x.readyAgentIn(cmp.Or(p.Project, x.harness.Project))
}

func questions(x *fixture) {
	p := x.harness.Prompts.Asks
	a := x.readyAsker()
	if p.Text == "" {
		r, f := x.startWorking(a, x.harness.Prompts.Works)
		q := answerTo(r, fleet.Question{ID: "1", Kind: fleet.AskText}, "tabs", "")
		x.requireReason(x.place.Connect(a).Answer(x.ctx, r, q), fleet.ReasonUnimplemented, fleet.ReasonQuestionNotFound)
		x.interruptRun(a, r, f)
		return
	}
	r, f := x.startWorking(a, p)
	permission := f.waitForQuestion("", fleet.QuestionWaiting)
	x.Equal(fleet.AskPermission, permission.Kind)
	x.Equal("Bash", permission.Tool)
	x.Contains(string(permission.Input), "touch asked")
	x.Less(permission.AskedAt, permission.ExpiresAt)
	unknown := answerTo(r, fleet.Question{ID: "999"}, fleet.AnswerAllow, "")
	x.requireReason(x.place.Connect(a).Answer(x.ctx, r, unknown), fleet.ReasonQuestionNotFound)
	denial := answerTo(r, permission, fleet.AnswerDeny, "not \"now\" $HOME")
	x.NoError(x.place.Connect(a).Answer(x.ctx, r, denial))
	x.NoError(x.place.Connect(a).Answer(x.ctx, r, denial)) // a server that did not receive the first result repeats the call
	x.NoError(x.place.Connect(a).Answer(x.ctx, r, answerTo(r, permission, fleet.AnswerAllow, "")), "the first answer counts")

	f.waitForLine("not \"now\" $HOME")
	question := f.waitForNextQuestion(permission.ID)
	x.Equal(fleet.AskText, question.Kind)
	x.Equal("tabs or spaces?", question.Text)
	x.Equal([]string{"tabs", "spaces"}, question.Options)
	x.NoError(x.place.Connect(a).Answer(x.ctx, r, answerTo(r, question, "neither: ✓", "")))
	outputs, o := f.waitForOutcome()
	x.Equal(fleet.TaskCompleted, o.Status, "outcome: %+v", o)
	x.requireLines(outputs, append(slices.Clone(p.Lines), fleet.AnswerDeny, "neither: ✓")...)
	answered := f.waitForQuestion(permission.ID, fleet.QuestionAnswered)
	x.Equal([]string{fleet.AnswerDeny, "not \"now\" $HOME", "alice"}, []string{answered.Answer, answered.Message, answered.AnsweredBy})
	unknownAfterEnd := answerTo(r, fleet.Question{ID: "999"}, "x", "")
	x.requireReason(x.place.Connect(a).Answer(x.ctx, r, unknownAfterEnd), fleet.ReasonQuestionNotFound, fleet.ReasonNoRunningTask)
}

func questionExpires(x *fixture) {
	p := x.harness.Prompts.UnansweredQuestion
	x.skipUnlessSet(p, "questions that expire")
	a := x.readyAgentFor(p)
	r := x.dispatch(a, p)
	f := x.follow(x.ctx, a, r, "")
	outputs, o := f.waitForOutcome()
	x.Equal(fleet.TaskCompleted, o.Status, "outcome: %+v", o)
	x.requireLines(outputs, p.Reply)
	q := f.waitForQuestion("", fleet.QuestionExpired)
	x.requireReason(x.place.Connect(a).Answer(x.ctx, r, answerTo(r, q, "too late", "")), fleet.ReasonQuestionClosed, fleet.ReasonNoRunningTask)
}

func endWithdrawsQuestions(x *fixture) {
	p := x.harness.Prompts.Asks
	x.skipUnlessSet(p, "questions")
	a := x.readyAgentFor(p)
	r, f := x.startWorking(a, p)
	q := f.waitForQuestion("", fleet.QuestionWaiting)
	x.interruptRun(a, r, f)
	x.requireReason(x.place.Connect(a).Answer(x.ctx, r, answerTo(r, q, fleet.AnswerAllow, "")), fleet.ReasonNoRunningTask, fleet.ReasonQuestionClosed)
}

func takeOverAnswers(x *fixture) {
	p := x.harness.Prompts.Asks
	x.skipUnlessSet(p, "questions")
	a := x.readyAgentFor(p)
	firstCtx, cancel := context.WithCancel(x.ctx)
	r := x.dispatch(a, p)
	f := x.follow(firstCtx, a, r, "")
	outputs := f.waitForLine(p.Lines[0])
	asked := f.waitForQuestion("", fleet.QuestionWaiting)
	cancel()
	_, _, err := f.waitForEnd()
	x.ErrorIs(err, context.Canceled)
	x.reopen()
	f = x.follow(x.ctx, a, r, outputs[len(outputs)-1].Cursor)
	askedAgain := f.waitForQuestion("", fleet.QuestionWaiting)
	x.Equal(asked.ID, askedAgain.ID, "Follow must report the open question again, whatever the cursor")
	x.Equal(asked.Input, askedAgain.Input)
	x.NoError(x.place.Connect(a).Answer(x.ctx, r, answerTo(r, askedAgain, fleet.AnswerAllow, "")))
	f.waitForLine(fleet.AnswerAllow)
	x.interruptRun(a, r, f)
}
