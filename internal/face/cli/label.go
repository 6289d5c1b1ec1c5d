package cli

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newAgentLabel() *cobra.Command {
	req := &fleetv1.SetLabelsRequest{}
	cmd := p.labelCommand(req, "an agent", "[AGENT]...", `Set labels of an agent with KEY=VALUE, and remove others with KEY-. Labels select the
agent in lists, and its later tasks get them too.`,
		`  fleet agent label papi env=prod team=web
  fleet agent label papi sony team-
  fleet agent label -l team=web team=api
  fleet agent list -l "env in (prod,test),!old"`,
		func(r *fleetv1.SetLabelsRequest, agent string) { r.AgentName = agent })
	return p.addBulk(cmd, "agents", bulkCommand{
		takesSeveral: true,
		operation:    fleetv1.PlanBulkRequest_label, progress: "labelling", request: req,
		names: func(args []string) []string { return args[:firstLabel(args)] },
		fill: func(_ *session, bulk *fleetv1.PlanBulkRequest, args []string) (err error) {
			bulk.Labels, bulk.Remove, err = parseLabels(args[firstLabel(args):])
			return err
		},
	})
}

// firstLabel returns the index of the first argument that sets or removes a label, or len(args) if there is none.
func firstLabel(args []string) int {
	for i, arg := range args {
		if strings.Contains(arg, "=") || strings.HasSuffix(arg, "-") {
			return i
		}
	}
	return len(args)
}

// parseLabels returns the labels to set, from arguments KEY=VALUE, and the keys of the labels to remove, from arguments KEY-.
func parseLabels(args []string) (set map[string]string, remove []string, err error) {
	if len(args) == 0 {
		return nil, nil, usagef("LABEL is missing: write KEY=VALUE, or KEY- to remove a label")
	}
	for _, arg := range args {
		if key, isRemoval := strings.CutSuffix(arg, "-"); isRemoval && !strings.Contains(arg, "=") {
			remove = append(remove, key)
		} else if err := addKeyValue(&set, "a label", arg); err != nil {
			return nil, nil, err
		}
	}
	return set, remove, nil
}

func (p *program) newTaskLabel() *cobra.Command {
	return p.labelCommand(&fleetv1.SetLabelsRequest{}, "a task", "ID", `Set labels of a task with KEY=VALUE, and remove others with KEY-. Labels select the task
in lists and in usage. A task starts with its agent's labels. You can also label a task
that has ended.`,
		`  fleet task label 3f2a1b0c review=yes
  fleet usage -l review=yes`,
		func(r *fleetv1.SetLabelsRequest, id string) { r.TaskId = id })
}

// labelCommand returns the command that sets and removes labels of one thing, for example "an agent". argument stands for that thing in the
// usage line. setTarget writes the first argument into the request.
func (p *program) labelCommand(req *fleetv1.SetLabelsRequest, what, argument, long, example string, setTarget func(r *fleetv1.SetLabelsRequest, target string)) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "label " + argument + " LABEL...",
		Short:   "Set and remove labels of " + what,
		Long:    long,
		Example: example,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			setTarget(req, args[0])
			var err error
			if req.Labels, req.Remove, err = parseLabels(args[1:]); err != nil {
				return err
			}
			resp, err := s.fleet.SetLabels(ctx, req)
			return s.print(resp, err, func() { s.printResult(resp.GetMessage(), args[0]) })
		}),
	}
	addRequestID(cmd, req)
	return cmd
}

// addLabels adds the flag --label to a command that creates something with labels. what names that thing in the help.
func addLabels(cmd *cobra.Command, labels *map[string]string, what string) {
	cmd.Flags().Var(keyValueFlag{labels, "--label"}, "label", "give "+what+" a label `KEY=VALUE` to select by; can be repeated")
}

// addSelector adds the flag --selector, which selects by labels. what names the selected things in the help.
func addSelector(cmd *cobra.Command, selector *string, what string) {
	cmd.Flags().StringVarP(selector, "selector", "l", "", "only "+what+" whose labels match `SELECTOR`, such as \"env=prod,team in (web,api),!old\"")
}

// labelsText returns the labels as KEY=VALUE, sorted and separated by commas. The text is also a selector.
func labelsText(labels *structpb.Struct) string {
	fields := labels.GetFields()
	parts := make([]string, 0, len(fields))
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		parts = append(parts, key+"="+fields[key].GetStringValue())
	}
	return strings.Join(parts, ",")
}
