package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

// offer is one completion: a name and its description.
type offer struct{ name, about string }

// offering returns a completion that offers names from list: those that begin with the typed text and are not arguments
// already. It offers nothing if the server does not answer in time, or if it would have to start an embedded server.
func (p *program) offering(list func(ctx context.Context, s *session, args []string) ([]offer, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
		const only = cobra.ShellCompDirectiveNoFileComp
		target, err := p.target()
		if err != nil || target.Embedded {
			return nil, only
		}
		parent := cmd.Context()
		if parent == nil {
			parent = context.Background()
		}
		ctx, cancel := context.WithTimeout(parent, p.deps.completion)
		defer cancel()
		connection, closeIt, err := p.deps.Dial(ctx, target)
		if err != nil {
			return nil, only
		}
		defer closeIt() //nolint:errcheck // nothing was written
		offers, _ := list(ctx, &session{
			program: p, cmd: cmd, calls: &conn{ClientConnInterface: connection},
			fleet: fleetv1.NewFleetServiceClient(connection), tokens: fleetv1.NewTokenServiceClient(connection),
		}, args) // a shell has no place for the error
		for _, o := range offers {
			if strings.HasPrefix(strings.ToLower(o.name), strings.ToLower(typed)) && !slices.Contains(args, o.name) {
				names = append(names, cobra.CompletionWithDesc(printable(o.name), printable(strings.TrimSpace(o.about))))
			}
		}
		return names, only
	}
}

// offers returns the completion for each item of a list.
func offers[T any](list []T, of func(T) offer) []offer {
	all := make([]offer, len(list))
	for i, x := range list {
		all[i] = of(x)
	}
	return all
}

// first restricts a completion to the first argument.
func first(f cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f(cmd, args, typed)
	}
}

// flagValue lets a completion of arguments complete the value of a flag.
func flagValue(f cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return f(cmd, nil, typed)
	}
}
