package mcp

import (
	"context"
	"embed"
	"fmt"
	"strings"
	"text/template"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"google.golang.org/grpc"

	fleetv1 "fleet/gen/fleet/v1"
)

//go:embed prompts/*.md
var promptTexts embed.FS

// maxPromptLine is the maximum length, in characters with the ellipsis, of a text in a prompt that was not written for the prompt, such as
// the description of a task.
const maxPromptLine = 300

var prompts = template.Must(template.New("").Funcs(template.FuncMap{"line": promptLine}).ParseFS(promptTexts, "prompts/*.md"))

// promptLine returns the text as one line, so that the text cannot look like a part of the prompt.
func promptLine(text string) string {
	return shorten(strings.Join(strings.Fields(text), " "), maxPromptLine)
}

// maxListed is how many items of a list a prompt shows.
const maxListed = 20

// promptFacts are the facts about the fleet that a prompt can contain.
type promptFacts struct {
	Args      map[string]string
	Fleet     *fleetv1.ShowFleetResponse
	Projects  []*fleetv1.Project
	Pools     []*fleetv1.Pool
	Running   []*fleetv1.Task
	Questions []*fleetv1.Question
	Work      []*fleetv1.ReviewedTask
	Task      *fleetv1.TaskDetail
	Reviews   []*fleetv1.Review
}

// factReader reads facts from the API. It keeps the first error.
type factReader struct {
	ctx context.Context //nolint:containedctx // it lives as long as one call
	api fleetv1.FleetServiceClient
	err error
}

// ask calls a method. It returns nil if the call or an earlier one has failed.
func ask[Q, A any](r *factReader, method func(context.Context, *Q, ...grpc.CallOption) (*A, error), q *Q) *A {
	if r.err != nil {
		return nil
	}
	var a *A
	a, r.err = method(r.ctx, q)
	return a
}

// addPrompts adds the prompts of the fleet. They contain only facts that the caller may see.
func addPrompts(s *server.MCPServer, conn grpc.ClientConnInterface) {
	limit := int32(maxListed)
	add := func(p mcp.Prompt, read func(r *factReader, f *promptFacts)) {
		s.AddPrompt(p, func(ctx context.Context, q mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			f := &promptFacts{Args: q.Params.Arguments}
			for _, a := range p.Arguments {
				if a.Required && strings.TrimSpace(f.Args[a.Name]) == "" {
					return nil, refuseCall(ctx, &rpcError{Code: mcp.INVALID_PARAMS, Message: fmt.Sprintf("the prompt %s needs %s: %s", p.Name, a.Name, a.Description)})
				}
			}
			r := &factReader{ctx: ctx, api: fleetv1.NewFleetServiceClient(conn)}
			if read(r, f); r.err != nil {
				return nil, refuseCall(ctx, callError(r.err))
			}
			var text strings.Builder
			if err := prompts.ExecuteTemplate(&text, p.Name+".md", f); err != nil {
				return nil, fmt.Errorf("mcp: prompt %s: %w", p.Name, err)
			}
			return mcp.NewGetPromptResult(p.Description, []mcp.PromptMessage{mcp.NewPromptMessage(mcp.RoleUser, mcp.NewTextContent(text.String()))}), nil
		})
	}
	add(mcp.NewPrompt("plan", mcp.WithPromptTitle("Plan work"), mcp.WithPromptDescription("Plan work for several agents, and run it"),
		mcp.WithArgument("goal", mcp.ArgumentDescription("what should be done, for example: add dark mode to the shop; by default, what you have talked about")),
	), func(r *factReader, f *promptFacts) {
		f.Fleet = ask(r, r.api.ShowFleet, &fleetv1.ShowFleetRequest{})
		f.Projects = ask(r, r.api.ListAgentProjects, &fleetv1.ListAgentProjectsRequest{Limit: &limit}).GetProjects()
		f.Pools = ask(r, r.api.ListPools, &fleetv1.ListPoolsRequest{Limit: &limit}).GetPools()
	})
	add(mcp.NewPrompt("review", mcp.WithPromptTitle("Review the work of a task"), mcp.WithPromptDescription("Review what a task has changed, and say what comes next"),
		mcp.WithArgument("task_id", mcp.RequiredArgument(), mcp.ArgumentDescription("the id of the task, or its first 6 characters or more")),
	), func(r *factReader, f *promptFacts) {
		id := strings.TrimSpace(f.Args["task_id"])
		f.Task = ask(r, r.api.ShowTask, &fleetv1.ShowTaskRequest{TaskId: id}).GetTask()
		for _, work := range ask(r, r.api.ListReviews, &fleetv1.ListReviewsRequest{TaskId: id}).GetTasks() {
			f.Reviews = work.GetReviews()
		}
	})
	add(mcp.NewPrompt("status", mcp.WithPromptTitle("Status of the fleet"), mcp.WithPromptDescription("Say what the fleet does, and what waits for you")),
		func(r *factReader, f *promptFacts) {
			f.Fleet = ask(r, r.api.ShowFleet, &fleetv1.ShowFleetRequest{})
			f.Running = ask(r, r.api.ListTasks, &fleetv1.ListTasksRequest{Status: fleetv1.Task_running, Limit: &limit}).GetTasks()
			f.Questions = ask(r, r.api.ListQuestions, &fleetv1.ListQuestionsRequest{Limit: &limit}).GetQuestions()
			f.Work = ask(r, r.api.ListReviews, &fleetv1.ListReviewsRequest{Limit: &limit}).GetTasks()
		})
}
