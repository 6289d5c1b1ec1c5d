package cli

import (
	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newTaskPush() *cobra.Command {
	req := &fleetv1.PublishTaskRequest{}
	return p.publishCommand(req, &cobra.Command{
		Use:   "push ID|AGENT",
		Short: "Push the work of a task to another repository",
		Long: `Push the work of a task, or of the newest task of an agent, to a remote of the project's
repository, with the credentials of the server's user or, in Coder, of the agent's
workspace. Nothing is overwritten there.`,
		Example: `  fleet task push papi
  fleet task push 3f2a... --remote upstream --branch fix-login`,
	})
}

func (p *program) newTaskPR() *cobra.Command {
	req := &fleetv1.PublishTaskRequest{PullRequest: true}
	cmd := p.publishCommand(req, &cobra.Command{
		Use:   "pr ID|AGENT",
		Short: "Push the work of a task and open a pull request",
		Long: `Push the work of a task, or of the newest task of an agent, and open a pull request (merge
request) with the program gh or glab of the server's user. If there is one for the
branch, its address is printed.`,
		Example: `  fleet task pr papi
  fleet task pr 3f2a... --into main --draft`,
	})
	f := cmd.Flags()
	f.StringVar(&req.Into, "into", "", "the `BRANCH` into which it should be merged")
	f.StringVar(&req.Title, "title", "", "`TITLE` of the pull request (default that of the task)")
	f.StringVar(&req.Text, "text", "", "`TEXT` of the pull request (default the agent's report)")
	f.BoolVar(&req.Draft, "draft", false, "open it as a draft")
	return cmd
}

// publishCommand makes cmd call PublishTask with req, and adds the flags that "task push" and "task pr" share.
func (p *program) publishCommand(req *fleetv1.PublishTaskRequest, cmd *cobra.Command) *cobra.Command {
	methodCommand(p, cmd, fleetv1.FleetServiceClient.PublishTask, req, func(s *session, resp *fleetv1.PublishTaskResponse) {
		s.printResult(resp.GetMessage(), resp.GetLanding().GetPublished().GetPullRequest())
	})
	f := cmd.Flags()
	f.StringVar(&req.Remote, "remote", "", "the `REMOTE` to push to (default the only one, or origin)")
	f.StringVar(&req.Branch, "branch", "", "the `BRANCH` there (default the agent's branch)")
	return cmd
}
