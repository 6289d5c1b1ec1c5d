package cli

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
)

// bulkFlags say which agents or tasks a command is for, and whether it only shows its plan or needs no confirmation.
type bulkFlags struct {
	selector         string
	all, dryRun, yes bool
}

// bulkCommand describes how a command acts on many agents or tasks.
type bulkCommand struct {
	operation fleetv1.PlanBulkRequest_Operation
	progress  string        // labels the progress line, such as "stopping"
	question  string        // what the command does, if it asks for confirmation, such as "Stop"
	flags     []string      // the command's own flags that the operation uses
	request   proto.Message // the request of the single call; the flag --request-id sets its id
	// takesSeveral says that the command makes a plan for several names too, without --selector, --all and --dry-run. If the command has no
	// RunE, it also makes a plan for a single name.
	takesSeveral bool
	// names returns the arguments that are names; nil if all arguments are.
	names func(args []string) []string
	// fill sets the fields that other flags and arguments give; nil if there are none.
	fill func(s *session, req *fleetv1.PlanBulkRequest, args []string) error
	// retry tries failed items again; nil if the command does not.
	retry itemRetry
}

// itemRetry tries a failed item again, and reports whether it is done now. An error ends the command.
type itemRetry func(ctx context.Context, s *session, item *fleetv1.BulkItem) (done bool, err error)

// addBulk adds the flags --selector, --all and --dry-run to a command for single agents or tasks. With one of them, the
// command makes a plan and, without --dry-run, runs it. what names the agents or tasks in the help.
func (p *program) addBulk(cmd *cobra.Command, what string, b bulkCommand) *cobra.Command {
	var flags bulkFlags
	f := cmd.Flags()
	addSelector(cmd, &flags.selector, what)
	f.BoolVar(&flags.all, "all", false, "all "+what+" with which you may do it")
	f.BoolVar(&flags.dryRun, "dry-run", false, "show what would be done, and do nothing")
	// If a command has a flag --yes and no question about many agents, the flag is for a question about a single one.
	usesYes := b.question != "" || f.Lookup("yes") == nil
	if f.Lookup("yes") == nil {
		f.BoolVarP(&flags.yes, "yes", "y", false, "do not ask for confirmation")
	}
	if wait := f.Lookup("wait"); wait != nil {
		wait.Usage += "; -l and --all have no default limit"
	}
	if b.names == nil {
		b.names = func(args []string) []string { return args }
	}
	runMany := p.action(func(ctx context.Context, s *session, args []string) error {
		req := &fleetv1.PlanBulkRequest{Operation: b.operation, Names: b.names(args), Selector: flags.selector, All: flags.all, RequestId: requestIDOf(b.request)}
		if b.fill != nil {
			if err := b.fill(s, req, args); err != nil {
				return err
			}
		}
		return s.runBulk(ctx, req, b, flags)
	})
	runSingle := cmd.RunE
	if runSingle == nil {
		runSingle = runMany
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		names := b.names(args)
		selects := flags.selector != "" || flags.all
		switch {
		case selects && len(names) > 0:
			return usagef("%q is a name: give names, --selector or --all", names[0])
		case !selects && len(names) == 0:
			return usagef("AGENT is missing: give names, --selector or --all: %s", cmd.UseLine())
		case !selects && !flags.dryRun && (!b.takesSeveral || len(names) == 1):
			return runSingle(cmd, args)
		}
		name := b.unusedFlag(cmd)
		if flags.yes, _ = f.GetBool("yes"); flags.yes && !usesYes {
			name = "yes"
		}
		if name != "" {
			return usagef("--%s works for named agents only, and not with --dry-run", name)
		}
		return runMany(cmd, args)
	}
	return cmd
}

// unusedFlag returns the name of a flag that was given and that the operation does not use, or "".
func (b bulkCommand) unusedFlag(cmd *cobra.Command) (name string) {
	usableFlags := append([]string{"selector", "all", "dry-run", "yes", "request-id", "wait"}, b.flags...)
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Changed && !slices.Contains(usableFlags, f.Name) {
			name = f.Name
		}
	})
	return name
}

// runBulk makes a plan and runs it. With --dry-run, it only shows the plan. If the command asks for confirmation, runBulk
// shows the plan before the question.
func (s *session) runBulk(ctx context.Context, req *fleetv1.PlanBulkRequest, b bulkCommand, flags bulkFlags) error {
	plan, err := s.fleet.PlanBulk(ctx, req)
	if err != nil {
		return err
	}
	if flags.dryRun {
		return s.print(plan, nil, func() { s.printPlan(plan) })
	}
	todoCount := plan.GetTotalCount() - plan.GetUnchangedCount() - plan.GetRefusedCount()
	if b.question != "" && todoCount > 0 && !flags.yes {
		noun := "agent"
		if b.operation == fleetv1.PlanBulkRequest_stop_task {
			noun = "task"
		}
		if s.isInteractive() {
			s.screen.printErrLine(s.planText(plan.GetItems()))
		}
		if err := s.confirm(ctx, fmt.Sprintf("%s %s?", b.question, countText(todoCount, noun)), "add --yes to do it without confirmation, or --dry-run to see what it would do", "nothing was done"); err != nil {
			return err
		}
	}
	return s.runPlan(ctx, plan.GetPlanId(), b.progress, s.bulkLimit(), b.retry)
}

// noLimit is the limit of a command that continues until everything is done.
const noLimit time.Duration = math.MaxInt64

// bulkLimit returns the time of --wait, or noLimit if the flag is not given.
func (s *session) bulkLimit() time.Duration {
	if f := s.cmd.Flags().Lookup("wait"); f != nil && f.Changed {
		limit, _ := s.cmd.Flags().GetDuration("wait")
		return max(limit, 0)
	}
	return noLimit
}

// bulkCallTime is how long a call works before it reports its progress.
const bulkCallTime = 5 * time.Second

// runPlan runs the plan until it is finished, and shows the results. It fails if an item failed, or if the plan is not
// finished after limit, although each call gets at least minCallTime. label is for the progress line. retry may be nil.
func (s *session) runPlan(ctx context.Context, id, label string, limit time.Duration, retry itemRetry) error {
	started := s.deps.Now()
	p := s.startProgress(label, started)
	defer p.stop()
	for {
		wait := min(max(limit-s.deps.Now().Sub(started), minCallTime), bulkCallTime)
		resp, err := s.fleet.RunBulk(ctx, &fleetv1.RunBulkRequest{PlanId: id, WaitSeconds: proto.Int32(int32(wait.Seconds()))})
		switch {
		case err != nil && (ctx.Err() != nil || reasonOf(err) == ""):
			p.stop()
			s.hint("Some may not be done. Go on: fleet bulk run %s", id)
			f := *s.explain(ctx, err, s.target)
			f.details = maps.Clone(f.details)
			if f.details == nil {
				f.details = map[string]any{}
			}
			f.details["plan_id"] = id
			return &f
		case err != nil:
			return err
		case !resp.GetUnfinished():
			p.stop()
			if err := s.printBulk(resp); err != nil {
				return err
			}
			return s.retryFailed(ctx, resp, retry)
		case s.deps.Now().Sub(started) >= limit:
			return &failure{
				code: ExitTimeout, reason: "TIMED_OUT", message: fmt.Sprintf("%d of %d are done", resp.GetDoneCount()+resp.GetUnchangedCount(), resp.GetTotalCount()),
				hint: fmt.Sprintf("go on with %q", "fleet bulk run "+id), details: map[string]any{"plan_id": id},
			}
		}
		p.setLabel(fmt.Sprintf("%s: %d of %d", label, resp.GetTotalCount()-pendingCount(resp), resp.GetTotalCount()))
	}
}

func pendingCount(r *fleetv1.RunBulkResponse) int32 {
	return r.GetTotalCount() - r.GetDoneCount() - r.GetUnchangedCount() - r.GetFailedCount()
}

// retryFailed calls retry, if it is not nil, for each item that has failed. The error says how many are not done in the end.
func (s *session) retryFailed(ctx context.Context, resp *fleetv1.RunBulkResponse, retry itemRetry) error {
	failed := resp.GetFailedCount()
	for _, item := range resp.GetItems() {
		if item.GetOutcome() != fleetv1.BulkItem_failed || retry == nil {
			continue
		}
		done, err := retry(ctx, s, item)
		if err != nil {
			return err
		}
		if done {
			failed--
		}
	}
	if failed > 0 {
		return Fail(ExitError, "", "%d of %d failed", failed, resp.GetTotalCount())
	}
	return nil
}

// printBulk prints the results.
func (s *session) printBulk(resp *fleetv1.RunBulkResponse) error {
	items := resp.GetItems()
	return s.print(resp, nil, func() {
		if s.quiet {
			items = slices.DeleteFunc(slices.Clone(items), func(i *fleetv1.BulkItem) bool { return i.GetOutcome() == fleetv1.BulkItem_failed })
		}
		printList(s, items, "Nothing is selected, so nothing was done.", slices.Concat(s.itemColumns(items), []column{
			{"RESULT", "outcome"},
			{"MESSAGE", func(i *fleetv1.BulkItem) string { return oneLine(s.translateForPeople(nil, i.GetMessage(), nil)) }},
		})...)
		if len(items) > 0 {
			s.hint("%s.", resp.GetMessage())
		}
	})
}

// itemColumns returns the columns that identify the agent or task of each item.
func (s *session) itemColumns(items []*fleetv1.BulkItem) []column {
	withOwner := slices.DeleteFunc(slices.Clone(items), func(i *fleetv1.BulkItem) bool { return i.GetOwner() == "" })
	hasTask := slices.ContainsFunc(items, func(i *fleetv1.BulkItem) bool { return i.GetTaskId() != "" })
	return []column{
		s.agentColumn(),
		{"OWNER", valueIf(s.output == wideFormat || hasSeveralOwners(withOwner), "owner")},
		{"TASK", valueIf(hasTask, func(i *fleetv1.BulkItem) string { return s.shownID(i.GetTaskId()) })},
	}
}

// maxPlanRows is how many items are shown before a question.
const maxPlanRows = 30

func (s *session) printPlan(plan *fleetv1.PlanBulkResponse) {
	printList(s, plan.GetItems(), "Nothing is selected.", s.planColumns(plan.GetItems())...)
	if plan.GetTotalCount() > 0 {
		s.hint("%s. Nothing was done. Do it: fleet bulk run %s", plan.GetMessage(), plan.GetPlanId())
	}
}

// planText returns a table of the first maxPlanRows items, and says how many more there are.
func (s *session) planText(items []*fleetv1.BulkItem) string {
	shownItems := items[:min(len(items), maxPlanRows)]
	messages := make([]proto.Message, len(shownItems))
	for i, item := range shownItems {
		messages[i] = item
	}
	text := s.tableOf((&fleetv1.BulkItem{}).ProtoReflect().Descriptor(), messages, s.planColumns(shownItems)).render(s.screen.errTerminal.width(), s.screen.colors)
	if more := len(items) - len(shownItems); more > 0 {
		text += fmt.Sprintf("and %d more, which --dry-run shows\n", more)
	}
	return text
}

func (s *session) planColumns(items []*fleetv1.BulkItem) []column {
	return slices.Concat(s.itemColumns(items), []column{{"WHAT HAPPENS", func(i *fleetv1.BulkItem) cell {
		switch i.GetOutcome() {
		case fleetv1.BulkItem_failed:
			return cell{"cannot be done: " + oneLine(s.translateForPeople(nil, i.GetMessage(), nil)), red}
		case fleetv1.BulkItem_unchanged:
			return cell{"nothing: " + i.GetMessage(), dim}
		}
		return cell{oneLine(i.GetEffect()), defaultColor}
	}}})
}
