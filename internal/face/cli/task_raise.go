package cli

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newTaskRaise() *cobra.Command {
	req := &fleetv1.RaiseTaskBudgetRequest{}
	return methodCommand(p, &cobra.Command{
		Use:   "raise ID USD",
		Short: "Set how much a task that has not ended may cost",
		Long: `Set what a task may cost in all, in US dollars. A task that waits because it has used up its
own limit goes on where it was. The budgets still hold.`,
		Example: `  fleet task raise 3f2a1b0c 2.50`,
		PreRunE: func(_ *cobra.Command, args []string) (err error) {
			if req.MaxCostUsd, err = strconv.ParseFloat(strings.TrimPrefix(args[1], "$"), 64); err != nil {
				return usagef("USD is %q: give an amount such as 2.50", args[1])
			}
			return nil
		},
	}, fleetv1.FleetServiceClient.RaiseTaskBudget, req, printMessage[*fleetv1.RaiseTaskBudgetResponse])
}
