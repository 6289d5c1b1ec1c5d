package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newPool() *cobra.Command {
	cmd := Group(&cobra.Command{
		Use:     "pool",
		Aliases: []string{"pools"},
		Short:   "Have agents created for queued tasks, and deleted when idle",
		Long: `A pool is a number of agents of one role. Fleet creates them when tasks wait for the
pool, and deletes them when they are idle. Their work is kept.

"fleet task queue pool:NAME ..." queues a task for a pool.`,
		Example: `  fleet pool create web --project webshop --max 4
  fleet task queue pool:web "make test"
  fleet pool list`,
	})
	cmd.AddCommand(
		p.newPoolCreate(), p.newPoolSet(), p.newPoolList(), p.newPoolShow(),
		methodCommand(p, &cobra.Command{
			Use: "delete NAME", Short: "Delete a pool when its last task has ended", Example: `  fleet pool delete web`,
			Long: `Delete a pool. It takes no new tasks, and its agents are deleted when the tasks that
wait for it have ended. Their work is kept.`,
		}, fleetv1.FleetServiceClient.DeletePool, &fleetv1.DeletePoolRequest{}, printMessage[*fleetv1.DeletePoolResponse]),
	)
	return cmd
}

const poolReuseUsage = "which agent a task gets: `any`, the same as the task that it depends on (same), or a new one (fresh)"

func (p *program) newPoolCreate() *cobra.Command {
	req := &fleetv1.CreatePoolRequest{}
	cmd := methodCommand(p, &cobra.Command{
		Use:   "create NAME",
		Short: "Create a pool",
		Long: `Create a pool of agents of a role. The names of its agents begin with the name of the
pool.

Next, "fleet task queue pool:NAME ..." queues tasks for it.`,
		Example: `  fleet pool create web --project webshop --max 4
  fleet pool create review --project webshop --role reviewer --max 2 --min-idle 1 --reuse fresh`,
	}, fleetv1.FleetServiceClient.CreatePool, req, func(s *session, resp *fleetv1.CreatePoolResponse) {
		printMessage(s, resp)
		s.hint(`Queue a task for it: fleet task queue pool:%s "..."`, req.GetName())
	})
	f := cmd.Flags()
	f.StringVar(&req.Project, "project", "", "the `PROJECT` of its agents")
	f.StringVar(&req.Role, "role", "", "the `ROLE` of its agents (default: the project's)")
	f.StringVar(&req.Spec, "spec", "", "the `SPEC` of its agents")
	addOptional(f, &req.MaxAgents, "max", "it has at most `N` agents (default 4)")
	addOptional(f, &req.MinIdle, "min-idle", "keep `N` idle agents ready (default 0)")
	addOptional(f, &req.MaxCreating, "max-creating", "create at most `N` agents at the same time (default 4)")
	addSeconds(cmd, "max-idle", "delete agents that have been idle for `DURATION` (default 10m)", func(n int32) { req.MaxIdleSeconds = &n })
	addEnum(cmd, &req.Reuse, fleetv1.Pool_Reuse_name, "reuse", poolReuseUsage)
	f.StringArrayVar(&req.Groups, "group", nil, "members of this `GROUP` may queue tasks for it; can be repeated")
	addParameters(cmd, &req.Parameters, "set a parameter of the project, see \"fleet project list -o wide\"; `NAME=VALUE`, can be repeated")
	addLabels(cmd, &req.Labels, "its agents")
	_ = cmd.MarkFlagRequired("project")
	return callsTool(cmd, "create_pool")
}

func (p *program) newPoolSet() *cobra.Command {
	req := &fleetv1.UpdatePoolRequest{}
	cmd := methodCommand(p, &cobra.Command{
		Use:   "set NAME",
		Short: "Change how many agents a pool has, and how long they stay",
		Long: `Change how many agents a pool has, and how long they stay. A pool that creates no agents
any more after ten failed creations tries again, even if nothing else is changed.`,
		Example: `  fleet pool set web --max 8
  fleet pool set web`,
	}, fleetv1.FleetServiceClient.UpdatePool, req, printMessage[*fleetv1.UpdatePoolResponse])
	f := cmd.Flags()
	addOptional(f, &req.MaxAgents, "max", "it has at most `N` agents")
	addOptional(f, &req.MinIdle, "min-idle", "keep `N` idle agents ready")
	addOptional(f, &req.MaxCreating, "max-creating", "create at most `N` agents at the same time")
	addSeconds(cmd, "max-idle", "delete agents that have been idle for `DURATION`", func(n int32) { req.MaxIdleSeconds = &n })
	addEnum(cmd, &req.Reuse, fleetv1.Pool_Reuse_name, "reuse", poolReuseUsage)
	f.StringArrayVar(&req.Groups, "group", nil, "members of this `GROUP` may queue tasks for it; can be repeated")
	return cmd
}

func (p *program) newPoolList() *cobra.Command {
	req := &fleetv1.ListPoolsRequest{}
	cmd := methodCommand(p, &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List pools",
		Long:    `List the pools that you may use, what their agents do, and how many tasks wait.`,
		Example: `  fleet pool list
  fleet pool list -l env=prod`,
	}, fleetv1.FleetServiceClient.ListPools, req, func(s *session, resp *fleetv1.ListPoolsResponse) {
		printList(s, resp.GetPools(), `No pool. Create one: fleet pool create NAME --project PROJECT`,
			s.nameColumn(), column{"PROJECT", "project"}, column{"ROLE", "role"}, column{"BUSY", "busy"}, column{"IDLE", "idle"},
			column{"STARTING", "starting"}, column{"MAX", "max_agents"}, column{"WAITING", "waiting"}, column{"STATE", poolState})
	})
	addOptional(cmd.Flags(), &req.Limit, "limit", "show at most `N` pools (default 100)")
	addSelector(cmd, &req.Selector, "pools")
	return cmd
}

// poolState describes the state of a pool.
func poolState(p *fleetv1.Pool) string {
	switch {
	case p.GetPaused():
		return "gave up: " + oneLine(p.GetFailure())
	case p.GetFailure() != "":
		return "tries again: " + oneLine(p.GetFailure())
	case p.GetDraining():
		return "is being deleted"
	}
	return "ready"
}

func (p *program) newPoolShow() *cobra.Command {
	return methodCommand(p, &cobra.Command{
		Use:     "show NAME",
		Short:   "Show a pool",
		Long:    `Show what a pool may have, what its agents do, and why it creates none if it does not.`,
		Example: `  fleet pool show web`,
	}, fleetv1.FleetServiceClient.ShowPool, &fleetv1.ShowPoolRequest{}, func(s *session, resp *fleetv1.ShowPoolResponse) {
		v := resp.GetPool()
		next := ""
		if v.GetPaused() {
			next = "fleet pool set " + v.GetName() + " lets it try again"
		}
		s.screen.print(s.card(
			cardLine{"Pool", v.GetName(), ""}, cardLine{"Owner", v.GetOwner(), ""},
			cardLine{"Project", v.GetProject(), v.GetPlace()}, cardLine{"Role", v.GetRole(), ""},
			cardLine{"State", poolState(v), next}, cardLine{"Agents", fmt.Sprintf("%d busy, %d idle, %d starting, %d offline; at most %d", v.GetBusy(), v.GetIdle(), v.GetStarting(), v.GetOffline(), v.GetMaxAgents()), ""},
			cardLine{"Names", strings.Join(resp.GetAgentNames(), ", "), ""}, cardLine{"Kept idle", fmt.Sprint(v.GetMinIdle()), ""},
			cardLine{"Idle for", "at most " + (time.Duration(v.GetMaxIdleSeconds()) * time.Second).String(), ""}, cardLine{"Reuse", enumName(v.GetReuse()), ""},
			cardLine{"Groups", strings.Join(v.GetGroups(), ", "), ""}, cardLine{"Waiting tasks", fmt.Sprint(v.GetWaiting()), ""},
			cardLine{"Next attempt", v.GetRetryAt(), ""}, cardLine{"Created", v.GetCreatedAt(), ""}))
	})
}
