package cli

import (
	"cmp"
	"context"
	"strings"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newQuestions() *cobra.Command {
	req := &fleetv1.ListQuestionsRequest{}
	cmd := methodCommand(p, &cobra.Command{
		Use:     "questions [AGENT]",
		Aliases: []string{"question"},
		Short:   "See what agents ask while they work",
		Long: `List the open questions of agents, newest first. An agent asks for permission to
use a tool, or anything else. It waits until somebody answers or the question
expires. A question of the kind budget is from Fleet: does a task go on that has
used up a budget?

Next, answer with "fleet answer ID allow".`,
		Example: `  fleet questions
  fleet questions papi --all
  fleet questions -o json | jq -r '.questions[].id'`,
	}, fleetv1.FleetServiceClient.ListQuestions, req, func(s *session, resp *fleetv1.ListQuestionsResponse) {
		all := req.GetIncludeAnswered()
		printList(s, resp.GetQuestions(), "There are no open questions.",
			column{"ID", func(q *fleetv1.Question) string { return s.questionID(q, resp.GetQuestions()) }},
			column{"AGENT", "agent_name"},
			column{"KIND", "kind"},
			column{"AGE", (*fleetv1.Question).GetAskedAt},
			column{"STATUS", valueIf(all, "status")},
			column{"ANSWER", valueIf(all, func(q *fleetv1.Question) string { return truncate(oneLine(q.GetAnswer()), descriptionWidth) })},
			column{"QUESTION", questionText})
		if next := resp.GetNextCursor(); next != "" {
			s.hint("There are more: repeat the command with --cursor %s (%d in all)", next, resp.GetTotalCount())
		}
	})
	cmd.Flags().StringVar(&req.TaskId, "task", "", "only questions about the task with `ID`")
	cmd.Flags().BoolVar(&req.IncludeAnswered, "all", false, "also questions that were answered, expired or withdrawn")
	addOptional(cmd.Flags(), &req.Limit, "limit", "list at most `N` questions, up to 100 (default 20)")
	cmd.Flags().StringVar(&req.Cursor, "cursor", "", "continue an earlier list from its `CURSOR`")
	return cmd
}

func (p *program) newAnswer() *cobra.Command {
	req := &fleetv1.AnswerQuestionRequest{}
	cmd := &cobra.Command{
		Use:   "answer ID [allow|deny|TEXT|-|@FILE]",
		Short: "Answer a question of an agent",
		Long: `Answer a question of an agent, so that it continues its task. Answer a request for
permission with allow or deny, and any other question with a text; "-" reads it from
standard input, and "@FILE" from a file. Answer a question about a budget with "go on",
stop, or what the task may cost in all, in US dollars. Without an answer, the command shows the question
and asks on the terminal: y allows the call, n denies it, a allows such calls in the task,
and A allows them to the agent from now on. --remember does the same. "fleet agent show"
lists what is allowed, and "fleet agent remove-rule" removes it.

The beginning of an id, at least 6 characters, is enough if no other open question
begins with it. Only the first answer counts.`,
		Example: `  fleet answer 3f2a1b0c allow
  fleet answer 3f2a1b0c deny --message "Use make clean instead"
  fleet answer 3f2a1b0c allow --remember task
  fleet answer 3f2a1b0c
  fleet answer 77b19e21 "Tabs, as everywhere else"`,
		ValidArgsFunction: p.completionFrom(completeQuestions),
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			req.QuestionId = args[0]
			if len(args) == 1 {
				if err := s.promptAnswer(ctx, req); err != nil {
					return err
				}
			} else {
				text, err := s.readArgument(args[1], "answer")
				if err != nil {
					return err
				}
				req.Answer = text
			}
			resp, err := s.fleet.AnswerQuestion(ctx, req)
			return s.print(resp, err, func() {
				s.printResult(resp.GetMessage(), resp.GetQuestion().GetId())
				s.hint("Follow it: fleet watch --task %s --follow", resp.GetQuestion().GetTaskId())
			})
		}),
	}
	cmd.Flags().StringVar(&req.Message, "message", "", "also send `TEXT` to the agent, for example why the answer is deny")
	addEnum(cmd, &req.Remember, fleetv1.Question_Remember_name, "remember", "how long allow holds: once, task or agent (default once)")
	addRequestID(cmd, req)
	return cmd
}

// promptAnswer shows the question on the terminal, and writes the person's answer into the request. It also replaces the id in the request,
// which may be only the beginning of an id, by the question's id.
func (s *session) promptAnswer(ctx context.Context, req *fleetv1.AnswerQuestionRequest) error {
	if !s.isInteractive() {
		return usagef("ANSWER is missing, and there is no terminal to ask for it: %s", s.cmd.UseLine())
	}
	s.conn.readsWholeLists = true
	resp, err := s.fleet.ListQuestions(ctx, &fleetv1.ListQuestionsRequest{})
	if err != nil {
		return err
	}
	var q *fleetv1.Question
	for _, candidate := range resp.GetQuestions() {
		if strings.HasPrefix(candidate.GetId(), req.GetQuestionId()) {
			if q != nil {
				return usagef("the ids of several questions begin with %q: give more of the id", req.GetQuestionId())
			}
			q = candidate
		}
	}
	if q == nil {
		return Fail(ExitError, "see \"fleet questions\"", "no open question has an id that begins with %q", req.GetQuestionId())
	}
	req.QuestionId = q.GetId()
	s.screen.printErrLine(printable(q.GetAgentName() + " asks: " + questionText(q)))
	if q.GetKind() != fleetv1.Question_permission {
		req.Answer, err = s.readAnswer(ctx, "Answer: ")
		return err
	}
	s.showRules(q)
	for {
		text, err := s.readAnswer(ctx, choicesText(q)+": ")
		if err != nil {
			return err
		}
		if answer := permissionAnswer(q, text); answer != nil {
			req.Answer = answer.GetAnswer()
			req.Remember = cmp.Or(answer.GetRemember(), req.GetRemember())
			return nil
		}
		if text == "" {
			return Fail(ExitError, "", "nothing was answered")
		}
	}
}

// showRules shows the rules that the answers a and A would allow. It shows nothing if the question has no rules or asks for something else
// than permission.
func (s *session) showRules(q *fleetv1.Question) {
	if rules := q.GetRules(); q.GetKind() == fleetv1.Question_permission && len(rules) > 0 {
		s.screen.printErrLine(printable("a and A allow " + strings.Join(rules, " and ")))
	}
}

// choicesText returns the texts that permissionAnswer accepts, for people.
func choicesText(q *fleetv1.Question) string {
	if len(q.GetRules()) == 0 {
		return "allow? y (once), n"
	}
	return "allow? y (once), n, a (in this task), A (always for this agent)"
}

// permissionAnswer returns the answer to a request for permission that a text such as "y" stands for, or nil if the text stands for none.
func permissionAnswer(q *fleetv1.Question, text string) *fleetv1.AnswerQuestionRequest {
	req := &fleetv1.AnswerQuestionRequest{QuestionId: q.GetId(), Answer: "allow"}
	switch {
	case text == "y" || text == "yes":
	case text == "n" || text == "no":
		req.Answer = "deny"
	case text == "a" && len(q.GetRules()) > 0:
		req.Remember = fleetv1.Question_task
	case text == "A" && len(q.GetRules()) > 0:
		req.Remember = fleetv1.Question_agent
	default:
		return nil
	}
	return req
}

// questionID returns the question's id for a table of all: shortened, unless the short form is also the beginning of another id.
func (s *session) questionID(q *fleetv1.Question, all []*fleetv1.Question) string {
	shortForm := s.shownID(q.GetId())
	for _, other := range all {
		if other != q && strings.HasPrefix(other.GetId(), shortForm) {
			return q.GetId()
		}
	}
	return shortForm
}

// questionText returns the question in one line, with the tool, its input and the possible answers.
func questionText(q *fleetv1.Question) string {
	parts := []string{}
	if q.GetTool() != "" {
		parts = append(parts, q.GetTool())
	}
	if q.GetInput() != nil {
		if b, err := q.GetInput().MarshalJSON(); err == nil {
			parts = append(parts, string(b))
		}
	}
	if q.GetText() != "" {
		parts = append(parts, q.GetText())
	}
	if len(q.GetOptions()) > 0 {
		parts = append(parts, "["+strings.Join(q.GetOptions(), " | ")+"]")
	}
	return oneLine(strings.Join(parts, " "))
}
