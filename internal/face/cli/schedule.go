package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newSchedule() *cobra.Command {
	cmd := Group(&cobra.Command{
		Use:   "schedule",
		Short: "Queue tasks at certain times",
		Long: `A schedule queues a task at each tick of a cron expression, or at one time. What happens to
ticks at which no server ran, and while the last task has not ended, is its choice.`,
		Example: `  fleet schedule create nightly papi "Update the dependencies" --cron "0 3 * * *" --time-zone Europe/Berlin
  fleet schedule list`,
	})
	cmd.AddCommand(
		p.newScheduleCreate(), p.newScheduleUpdate(), p.newScheduleList(), p.newScheduleShow(),
		methodCommand(p, &cobra.Command{
			Use: "delete NAME", Short: "Delete a schedule", Example: `  fleet schedule delete nightly`,
			Long: `Delete a schedule. Tasks that it has queued stay.`,
		}, fleetv1.FleetServiceClient.DeleteSchedule, &fleetv1.DeleteScheduleRequest{}, printMessage[*fleetv1.DeleteScheduleResponse]),
	)
	return cmd
}

// scheduleFlags are the flags that decide when a schedule queues its task.
type scheduleFlags struct {
	cron, zone, missed, overlap *string
	at                          *timestamppb.Timestamp
}

func (s *scheduleFlags) addTo(p *program, cmd *cobra.Command) {
	f := cmd.Flags()
	addOptional(f, &s.cron, "cron", "queue the task at each tick of this `EXPRESSION`, such as \"0 3 * * *\"")
	p.addLaterTime(cmd, &s.at, "at", "queue the task once, at `TIME` or after a duration such as 2h")
	addOptional(f, &s.zone, "time-zone", "the `ZONE` of --cron, such as Europe/Berlin (default UTC)")
	addOptional(f, &s.missed, "missed", "`WHAT` to do about ticks at which no server ran: skip, latest or all (default latest)")
	addOptional(f, &s.overlap, "overlap", "`WHAT` to do while the last task has not ended: skip or queue (default skip)")
}

// scheduledTaskFlags are the flags of the task of a schedule.
type scheduledTaskFlags struct {
	taskFlags
	priority  *int32
	exclusive string
	role      string
}

func (o *scheduledTaskFlags) addTo(cmd *cobra.Command) {
	o.taskFlags.addTo(cmd)
	f := cmd.Flags()
	addOptional(f, &o.priority, "priority", "start before tasks with a lower `PRIORITY`, from -100 to 100 (default 0)")
	f.StringVar(&o.role, "role", "", "the `ROLE` of the agents of project:NAME (default: the project's)")
	f.StringVar(&o.exclusive, "exclusive", "", "run at most one task with this `KEY` at a time")
}

// request returns the request to queue the task of the schedule. It leaves out the flags --label and --request-id, which are for the schedule.
func (o *scheduledTaskFlags) request(s *session, target, description string) (*fleetv1.QueueTaskRequest, error) {
	req, err := o.queueRequest(s, target, description)
	if err != nil {
		return nil, err
	}
	req.Role, req.Priority, req.Exclusive, req.RequestId, req.Labels = o.role, o.priority, o.exclusive, "", nil
	return req, nil
}

func (p *program) newScheduleCreate() *cobra.Command {
	var when scheduleFlags
	var task scheduledTaskFlags
	cmd := &cobra.Command{
		Use:   "create NAME TARGET DESCRIPTION|-|@FILE",
		Short: "Create a schedule, which queues a task",
		Long: `Create a schedule, which queues a task at each tick of --cron, or once at --at. The task
then waits like any other until an agent is idle; "fleet queue" shows it. TARGET is the
name of an agent, pool:NAME or project:NAME, as for "fleet task queue". The tasks have the
label schedule=NAME.
` + descriptionHelp,
		Example: `  fleet schedule create nightly papi "Update the dependencies" --cron "0 3 * * *" --time-zone Europe/Berlin
  fleet schedule create report sony @report.md --cron "0 9 * * mon-fri" --missed skip
  fleet schedule create triage pool:web "Look at new issues" --cron "*/30 * * * *"
  fleet schedule create release papi "make release" --at 8h`,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			t, err := task.request(s, args[1], args[2])
			if err != nil {
				return err
			}
			resp, err := s.fleet.CreateSchedule(ctx, &fleetv1.CreateScheduleRequest{
				Name: args[0], Task: t, Labels: task.req.GetLabels(), Cron: textOrEmpty(when.cron), At: when.at, TimeZone: textOrEmpty(when.zone), Missed: when.missed, Overlap: when.overlap, RequestId: task.req.GetRequestId(),
			})
			return s.print(resp, err, func() {
				s.printResult(resp.GetMessage(), args[0])
				s.hintNextTick(resp.GetSchedule())
			})
		}),
	}
	when.addTo(p, cmd)
	task.addTo(cmd)
	return callsTool(cmd, "create_schedule")
}

// textOrEmpty returns the text, or "" if text is nil.
func textOrEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// hintNextTick prints when the schedule queues its next task.
func (s *session) hintNextTick(sched *fleetv1.Schedule) {
	switch {
	case sched.GetPaused():
		s.hint("It is paused. Resume it: fleet schedule update %s --paused=false", sched.GetName())
	case sched.GetNextTick() == nil:
		s.hint("It has no further tick.")
	default:
		s.hint("Next tick: %s", s.timeText(sched.GetNextTick()))
	}
}

func (p *program) newScheduleUpdate() *cobra.Command {
	var when scheduleFlags
	var task scheduledTaskFlags
	var paused bool
	var taskFlagNames []string // names of the flags that are allowed only with a new task
	req := &fleetv1.UpdateScheduleRequest{}
	var cmd *cobra.Command
	cmd = &cobra.Command{
		Use:   "update NAME [TARGET] [DESCRIPTION|-|@FILE]",
		Short: "Change or pause a schedule",
		Long: `Change when a schedule queues its task, or pause it. Ticks while it is paused are not made up
for. With TARGET and DESCRIPTION, another task takes the place of its task, with the flags
of "fleet schedule create". --label and --remove-label change its labels.`,
		Example: `  fleet schedule update nightly --cron "0 4 * * *"
  fleet schedule update nightly --paused
  fleet schedule update nightly --paused=false
  fleet schedule update nightly papi "Update the dependencies, and run the tests"
  fleet schedule update nightly --label env=prod --remove-label old`,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			req.Name, req.Cron, req.At, req.TimeZone, req.Missed, req.Overlap = args[0], when.cron, when.at, when.zone, when.missed, when.overlap
			if s.cmd.Flags().Changed("paused") {
				req.Paused = &paused
			}
			var err error
			switch len(args) {
			case 1:
				if name := changedFlag(cmd, taskFlagNames); name != "" {
					return usagef("--%s is for another task: give its TARGET and DESCRIPTION too", name)
				}
			case 2:
				return usagef("DESCRIPTION is missing: %s", s.cmd.UseLine())
			case 3:
				if req.Task, err = task.request(s, args[1], args[2]); err != nil {
					return err
				}
			}
			req.Labels, req.RequestId = task.req.GetLabels(), task.req.GetRequestId()
			resp, err := s.fleet.UpdateSchedule(ctx, req)
			return s.print(resp, err, func() {
				s.printResult(resp.GetMessage(), args[0])
				s.hintNextTick(resp.GetSchedule())
			})
		}),
	}
	task.addTo(cmd)
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "label" && f.Name != "request-id" {
			taskFlagNames = append(taskFlagNames, f.Name)
		}
	})
	when.addTo(p, cmd)
	cmd.Flags().StringArrayVar(&req.RemoveLabels, "remove-label", nil, "remove the label with `KEY`; can be repeated")
	cmd.Flags().BoolVar(&paused, "paused", false, "queue no tasks; --paused=false resumes")
	return callsTool(cmd, "update_schedule", "schedule")
}

// changedFlag returns the name of the first of the flags that was given, or "" if none was.
func changedFlag(cmd *cobra.Command, names []string) string {
	for _, name := range names {
		if cmd.Flags().Changed(name) {
			return name
		}
	}
	return ""
}

func (p *program) newScheduleList() *cobra.Command {
	req := &fleetv1.ListSchedulesRequest{}
	cmd := methodCommand(p, &cobra.Command{
		Use: "list", Short: "List your schedules, with the next tick of each", Example: `  fleet schedule list
  fleet schedule list -l env=prod`,
		Long: `List your schedules, with the next tick of each. Admins see those of all owners.`,
	}, fleetv1.FleetServiceClient.ListSchedules, req, func(s *session, resp *fleetv1.ListSchedulesResponse) {
		printList(s, resp.GetSchedules(), `No schedules. Create one: fleet schedule create NAME AGENT "..." --cron "0 3 * * *"`,
			s.nameColumn(), column{"WHEN", scheduleWhen}, column{"ZONE", "time_zone"},
			column{"NEXT", func(sched *fleetv1.Schedule) string {
				if sched.GetPaused() {
					return "paused"
				}
				return s.timeText(sched.GetNextTick())
			}},
			column{"QUEUED", "queued"}, column{"SKIPPED", "skipped"}, column{"LATE", "late"}, column{"FAILED", "failed"},
			column{"TASK", func(sched *fleetv1.Schedule) string {
				return truncate(oneLine(scheduledDescription(sched)), descriptionWidth)
			}})
	})
	addOptional(cmd.Flags(), &req.Limit, "limit", "show at most `N` schedules (default 100)")
	addSelector(cmd, &req.Selector, "schedules")
	return cmd
}

func scheduleWhen(sched *fleetv1.Schedule) string {
	return cmp.Or(sched.GetCron(), "once")
}

func scheduledDescription(sched *fleetv1.Schedule) string {
	return sched.GetTask().GetFields()["task_description"].GetStringValue()
}

func (p *program) newScheduleShow() *cobra.Command {
	return methodCommand(p, &cobra.Command{
		Use: "show NAME", Short: "Show a schedule, and what became of its ticks", Example: `  fleet schedule show nightly`,
		Long: `Show a schedule, its task, and what became of its ticks.`,
	}, fleetv1.FleetServiceClient.ShowSchedule, &fleetv1.ShowScheduleRequest{}, func(s *session, resp *fleetv1.ShowScheduleResponse) {
		v := resp.GetSchedule()
		task, err := protojson.MarshalOptions{Multiline: true}.Marshal(v.GetTask())
		if err != nil {
			task = []byte(err.Error())
		}
		note := ""
		if v.GetPaused() {
			note = "paused"
		}
		s.screen.print(s.card(
			cardLine{"Name", v.GetName(), note}, cardLine{"Owner", v.GetOwner(), ""}, cardLine{"Labels", labelsText(v.GetLabels()), ""}, cardLine{"When", scheduleWhen(v), v.GetTimeZone()}, cardLine{"At", v.GetAt(), ""},
			cardLine{"Missed", v.GetMissed(), "ticks at which no server ran"}, cardLine{"Overlap", v.GetOverlap(), "while the last task has not ended"},
			cardLine{"Next", v.GetNextTick(), ""}, cardLine{"Last", v.GetLastTick(), v.GetLastTaskId()}, cardLine{"Error", v.GetLastError(), ""},
			cardLine{"Ticks", fmt.Sprintf("%d queued, %d skipped, %d late, %d failed", v.GetQueued(), v.GetSkipped(), v.GetLate(), v.GetFailed()), ""},
			cardLine{"Task", strings.TrimSpace(string(task)), ""},
		))
	})
}
