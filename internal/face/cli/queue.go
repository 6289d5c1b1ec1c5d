package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newQueue() *cobra.Command {
	cmd := Group(&cobra.Command{
		Use:   "queue",
		Short: "See and change the tasks that wait to start",
		Long: `A queued task waits until nothing is in its way, and then starts by itself. "fleet task
queue AGENT ..." queues one, and "fleet queue why ID" shows all reasons why it waits.`,
		Example: `  fleet task queue papi "make release" --priority 10
  fleet queue list
  fleet queue why 3f2a1b0c`,
	})
	cmd.AddCommand(
		p.newQueueList(), p.newQueueShow(), p.newQueueWhy(), p.newQueueSet(),
		methodCommand(p, &cobra.Command{
			Use: "hold ID", Short: "Keep a pending task from starting", Example: `  fleet queue hold 3f2a1b0c`,
			Long: `Keep a pending task from starting until "fleet queue release ID".`,
		}, fleetv1.FleetServiceClient.HoldTask, &fleetv1.HoldTaskRequest{}, printMessage[*fleetv1.HoldTaskResponse]),
		methodCommand(p, &cobra.Command{
			Use: "release ID", Short: "Let a held task start", Example: `  fleet queue release 3f2a1b0c`,
			Long: `Let a held task start as soon as nothing else is in its way.`,
		}, fleetv1.FleetServiceClient.ReleaseTask, &fleetv1.ReleaseTaskRequest{}, printMessage[*fleetv1.ReleaseTaskResponse]),
		methodCommand(p, &cobra.Command{
			Use: "stop ID", Short: "Stop a task, whether it waits or runs", Example: `  fleet queue stop 3f2a1b0c`,
			Long: `Stop a task, whether it waits or runs. "fleet task stop AGENT" stops the running task of an
agent.`,
		}, fleetv1.FleetServiceClient.StopTask, &fleetv1.StopTaskRequest{}, printMessage[*fleetv1.StopTaskResponse]),
	)
	return cmd
}

func (p *program) newQueueList() *cobra.Command {
	req := &fleetv1.ListQueueRequest{}
	cmd := methodCommand(p, &cobra.Command{
		Use:   "list [AGENT]",
		Short: "List the tasks that wait, the next one first",
		Long:  `List the tasks that wait, in the order in which they start, and what each of them waits for.`,
		Example: `  fleet queue list
  fleet queue list papi -l env=prod`,
	}, fleetv1.FleetServiceClient.ListQueue, req, func(s *session, resp *fleetv1.ListQueueResponse) {
		printList(s, resp.GetTasks(), `No task waits. Queue one: fleet task queue AGENT "..."`,
			column{"ID", func(t *fleetv1.QueuedTask) string { return s.shownID(t.GetId()) }},
			column{"POSITION", "queue.position"}, column{"AGENT", queueTargetText}, column{"PRIORITY", "queue.priority"}, column{"AGE", (*fleetv1.QueuedTask).GetCreatedAt},
			column{"WAITS FOR", func(t *fleetv1.QueuedTask) string { return reasonsText(t.GetQueue().GetWaits()) }},
			column{"TASK", func(t *fleetv1.QueuedTask) string { return truncate(oneLine(t.GetSummary()), descriptionWidth) }})
		if n := len(resp.GetTasks()); n > 0 && n < int(resp.GetTotalCount()) {
			s.hint("%d of %d tasks; --limit N shows more.", n, resp.GetTotalCount())
		}
	})
	addSelector(cmd, &req.Selector, "tasks")
	addOptional(cmd.Flags(), &req.Limit, "limit", "show at most `N` tasks (default 100)")
	return cmd
}

// reasonsText returns the reasons of the waits, separated by commas, each reason once.
func reasonsText(waits []*fleetv1.Wait) string {
	var names []string
	for _, w := range waits {
		if name := strings.ReplaceAll(w.GetReason(), "_", " "); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// queueTargetText returns the agent, pool or project that the task is queued for, in the notation of "fleet task queue".
func queueTargetText(t *fleetv1.QueuedTask) string {
	switch q := t.GetQueue(); {
	case t.GetAgentName() != "":
		return t.GetAgentName()
	case q.GetPool() != "":
		return "pool:" + q.GetPool()
	default:
		return "project:" + q.GetProject() + " " + q.GetRole()
	}
}

func (p *program) newQueueShow() *cobra.Command {
	return methodCommand(p, &cobra.Command{
		Use:     "show",
		Short:   "Sum up the tasks that wait",
		Long:    `Sum up the tasks that wait: how many, for how long, and why.`,
		Example: `  fleet queue show`,
	}, fleetv1.FleetServiceClient.ShowQueue, &fleetv1.ShowQueueRequest{}, func(s *session, resp *fleetv1.ShowQueueResponse) {
		lines := []cardLine{{"Waiting", fmt.Sprint(resp.GetPending()), ""}, {"Oldest", resp.GetOldest(), ""}}
		if p := resp.GetPaused(); p != nil {
			lines = append(lines, cardLine{"Paused", p.GetAt(), "by " + p.GetBy() + afterColon(p.GetReason())})
		}
		for _, r := range resp.GetReasons() {
			lines = append(lines, cardLine{upperFirst(strings.ReplaceAll(r.GetReason(), "_", " ")), fmt.Sprint(r.GetTasks()), ""})
		}
		lines = append(lines, cardLine{"Overtaken", "at most " + (time.Duration(resp.GetOvertakeSeconds()) * time.Second).String(), "then a task of the lowest priority comes before new ones"})
		s.screen.print(s.card(lines...))
	})
}

func (p *program) newQueueWhy() *cobra.Command {
	return methodCommand(p, &cobra.Command{
		Use:     "why ID",
		Short:   "Show why a task waits",
		Long:    `Show all reasons why a task waits, first those that block it now.`,
		Example: `  fleet queue why 3f2a1b0c`,
	}, fleetv1.FleetServiceClient.ShowTask, &fleetv1.ShowTaskRequest{}, func(s *session, resp *fleetv1.ShowTaskResponse) {
		t := resp.GetTask()
		if t.GetQueue() == nil {
			s.screen.print("It does not wait: it is " + enumName(t.GetStatus()) + ".\n")
			return
		}
		for _, w := range t.GetQueue().GetWaits() {
			text := strings.ReplaceAll(w.GetReason(), "_", " ") + ": " + w.GetText()
			if w.GetSince() != nil {
				text += " (for " + s.ageText(w.GetSince()) + ")"
			}
			if left := w.GetUntil().AsTime().Sub(s.deps.Now()); w.GetUntil() != nil && left > 0 {
				text += " (in " + shortDuration(left) + ")"
			}
			s.screen.print(printable(text) + "\n")
			if w.GetNext() != "" {
				details := map[string]any{"agent_name": w.GetSubject(), "name": w.GetSubject(), "task_id": shortID(t.GetId())}
				s.screen.print(printable("  "+replaceMarked(w.GetNext(), "`", "`", func(tool string) string { return s.commandsFor(nil).quotedCommand(tool, details) })) + "\n")
			}
		}
		if len(t.GetQueue().GetWaits()) == 0 {
			s.screen.print("Nothing is in its way: it starts now.\n")
		}
	})
}

func (p *program) newQueueSet() *cobra.Command {
	var when queueFlags
	req := &fleetv1.UpdateQueuedTaskRequest{}
	cmd := methodCommand(p, &cobra.Command{
		Use:     "set ID",
		Short:   "Change when a pending task starts",
		Long:    `Change the priority, the times, the key or the dependencies of a pending task.`,
		Example: `  fleet queue set 3f2a1b0c --priority 50`,
		PreRun: func(cmd *cobra.Command, _ []string) {
			req.Priority, req.NotBefore, req.Expires, req.DependsOn = when.priority, when.notBefore, when.expires, when.dependencies()
			if cmd.Flags().Changed("exclusive") {
				req.Exclusive = &when.exclusive
			}
		},
	}, fleetv1.FleetServiceClient.UpdateQueuedTask, req, printMessage[*fleetv1.UpdateQueuedTaskResponse])
	when.addTo(p, cmd)
	return cmd
}
