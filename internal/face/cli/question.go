package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newQuestions() *cobra.Command {
	var limit int32
	req := &fleetv1.ListQuestionsRequest{}
	cmd := &cobra.Command{
		Use:     "questions [AGENT]",
		Aliases: []string{"question"},
		Short:   "See what agents ask while they work",
		Long: `List the open questions of agents, newest first. An agent asks for permission to
use a tool, or anything else. It waits until somebody answers or the question
expires.

Next, answer with "fleet answer ID allow".`,
		Example: `  fleet questions
  fleet questions papi --all
  fleet questions -o json | jq -r '.questions[].id'`,
		Args:              args("[AGENT]"),
		ValidArgsFunction: p.completeAgent(),
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			if len(args) == 1 {
				req.AgentName = args[0]
			}
			if s.cmd.Flags().Changed("limit") {
				req.Limit = &limit
			}
			resp, err := s.fleet.ListQuestions(ctx, req)
			return s.print(resp, err, func() {
				s.showQuestions(resp.GetQuestions(), req.GetIncludeAnswered(), "There are no open questions.")
				if next := resp.GetNextCursor(); next != "" {
					s.hint("There are more: repeat the command with --cursor %s (%d in all)", next, resp.GetTotalCount())
				}
			})
		}),
	}
	cmd.Flags().StringVar(&req.TaskId, "task", "", "only questions about the task with `ID`")
	cmd.Flags().BoolVar(&req.IncludeAnswered, "all", false, "also questions that were answered, expired or withdrawn")
	cmd.Flags().Int32Var(&limit, "limit", 0, "list at most `N` questions, up to 100 (default 20)")
	cmd.Flags().StringVar(&req.Cursor, "cursor", "", "continue an earlier list from its `CURSOR`")
	complete(cmd, "limit", cobra.NoFileCompletions)
	complete(cmd, "cursor", cobra.NoFileCompletions)
	complete(cmd, "task", p.completeTasks())
	return cmd
}

func (p *program) newAnswer() *cobra.Command {
	req := &fleetv1.AnswerQuestionRequest{}
	cmd := &cobra.Command{
		Use:   "answer ID allow|deny|TEXT|-|@FILE",
		Short: "Answer a question of an agent",
		Long: `Answer a question of an agent, so that it continues its task. Answer a request for
permission with allow or deny, and any other question with a text; "-" reads it from
standard input, and "@FILE" from a file.

The beginning of an id, at least 6 characters, is enough if no other open question
begins with it. Only the first answer counts.`,
		Example: `  fleet answer 3f2a1b0c allow
  fleet answer 3f2a1b0c deny --message "Use make clean instead"
  fleet answer 77b19e21 "Tabs, as everywhere else"`,
		Args:              args("ID ANSWER"),
		ValidArgsFunction: p.completeAnswer(),
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			text, err := s.text(args[1], "answer")
			if err != nil {
				return err
			}
			req.QuestionId, req.Answer = args[0], text
			resp, err := s.fleet.AnswerQuestion(ctx, req)
			return s.print(resp, err, func() {
				s.say(resp.GetMessage(), resp.GetQuestion().GetId())
				s.hint("Follow it: fleet watch --task %s --follow", resp.GetQuestion().GetTaskId())
			})
		}),
	}
	cmd.Flags().StringVar(&req.Message, "message", "", "also send `TEXT` to the agent, for example why the answer is deny")
	complete(cmd, "message", cobra.NoFileCompletions)
	addRequestID(cmd, &req.RequestId)
	return cmd
}

// showQuestions prints questions as a table.
func (s *session) showQuestions(questions []*fleetv1.Question, all bool, none string) {
	g := newGrid("ID", "AGENT", "KIND", "AGE")
	g.column("STATUS", all)
	g.column("ANSWER", all)
	g.column("QUESTION", true)
	for _, q := range questions {
		g.row(s.questionID(q, questions), q.GetAgentName(), q.GetKind(), s.age(q.GetAskedAt()), q.GetStatus(),
			truncate(oneLine(q.GetAnswer()), descriptionWidth), askedOf(q))
	}
	s.show(g, none)
}

// questionID returns the beginning of the id for a table, or the whole id if another listed question begins with the
// same.
func (s *session) questionID(q *fleetv1.Question, all []*fleetv1.Question) string {
	if s.quiet || s.output == wide {
		return q.GetId()
	}
	short := q.GetId()[:min(len(q.GetId()), shortID)]
	for _, other := range all {
		if other != q && strings.HasPrefix(other.GetId(), short) {
			return q.GetId()
		}
	}
	return short
}

// askedOf returns the question in one line.
func askedOf(q *fleetv1.Question) string {
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

// oneLine returns the text without line breaks.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
