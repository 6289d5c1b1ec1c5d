package cli

import (
	"context"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newToken() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:     "token",
		Aliases: []string{"tokens"},
		Short:   "Manage the tokens that callers identify themselves with",
		Long: `A server that runs with --auth tokens wants a token from every caller. Its name is
the caller's name, and what the caller makes belongs to it.

The first token is made on the machine of the server, while the server is
stopped: fleet token create NAME --admin --embedded.`,
		Example: `  fleet token create alice --admin --embedded
  fleet token create ci --kind controller --ttl 90d
  fleet token list`,
	})
	cmd.AddCommand(
		calls(p.newTokenCreate(), "create_token"),
		calls(p.newTokenList(), "list_tokens"),
		calls(p.newTokenRevoke(), "revoke_token", "token"),
	)
	return cmd
}

func (p *program) newTokenCreate() *cobra.Command {
	req := &fleetv1.CreateTokenRequest{}
	var kind, ttl string
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a token and print its secret, once",
		Long: `Create a token. Its secret is printed on standard output and nowhere else, this one
time: Fleet keeps a hash of it.

What comes next: keep the secret in a file that only its holder can read, and
name the file with --token-file or FLEET_TOKEN_FILE.`,
		Example: `  (umask 077; fleet token create alice --admin > ~/.fleet-token)
  fleet token create ci --kind controller --ttl 90d
  fleet token create alice --admin --embedded     # while the server is stopped`,
		Args:              args("NAME"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			req.Name = args[0]
			n, ok := fleetv1.Token_Kind_value[kind]
			if !ok || n == 0 {
				return usagef("the kind %q does not exist; it is human, controller or agent", kind)
			}
			req.Kind = fleetv1.Token_Kind(n)
			seconds, err := lifetime(ttl)
			if err != nil {
				return err
			}
			req.TtlSeconds = seconds
			resp, err := s.tokens.CreateToken(ctx, req)
			if err != nil {
				return err
			}
			return s.print(resp, func() {
				s.screen.raw(resp.GetSecret() + "\n")
				if n := resp.GetOwnedAgents(); n > 0 {
					s.hint("An earlier token %q left %d agents: whoever holds this secret owns them.", resp.GetToken().GetName(), n)
				}
				s.hint("This secret of %q is shown once. Keep it in a file, and name that with --token-file.", resp.GetToken().GetName())
			})
		}),
	}
	cmd.Flags().StringVar(&kind, "kind", "human", "who holds it, as `KIND`: human, controller (an AI) or agent")
	cmd.Flags().BoolVar(&req.Admin, "admin", false, "its holder sees and touches everything, not only its own")
	cmd.Flags().StringVar(&ttl, "ttl", "", "it stops working after `DURATION`, such as 12h or 90d (default never)")
	complete(cmd, "kind", cobra.FixedCompletions([]string{"human", "controller", "agent"}, cobra.ShellCompDirectiveNoFileComp))
	complete(cmd, "ttl", cobra.NoFileCompletions)
	return cmd
}

// lifetime parses a duration, possibly in days, and returns seconds; 0 if none is given.
func lifetime(ttl string) (int32, error) {
	if ttl == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(ttl)
	if days, ok := strings.CutSuffix(ttl, "d"); ok {
		var n int
		if n, err = strconv.Atoi(days); err == nil && n < math.MaxInt32/86400 {
			d = time.Duration(n) * 24 * time.Hour
		}
	}
	if err != nil || d < time.Second || d > math.MaxInt32*time.Second {
		return 0, usagef("the --ttl %q is not a time such as 30m, 12h or 90d", ttl)
	}
	return int32(d / time.Second), nil
}

func (p *program) newTokenList() *cobra.Command {
	return &cobra.Command{
		Use:               "list",
		Aliases:           []string{"ls"},
		Short:             "List the tokens, without their secrets",
		Long:              `List the tokens: who holds them, and until when they work.`,
		Example:           `  fleet token list`,
		Args:              args(""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: p.action(func(ctx context.Context, s *session, _ []string) error {
			resp, err := s.tokens.ListTokens(ctx, &fleetv1.ListTokensRequest{})
			if err != nil {
				return err
			}
			return s.print(resp, func() {
				g := newGrid("NAME", "KIND", "ADMIN", "AGE", "STATUS")
				for _, t := range resp.GetTokens() {
					admin := ""
					if t.GetAdmin() {
						admin = "yes"
					}
					g.row(t.GetName(), t.GetKind().String(), admin, s.age(t.GetCreatedAt()), s.validity(t))
				}
				s.show(g, "There are no tokens. Create one: fleet token create NAME")
			})
		}),
	}
}

// validity reports whether a token works, and for how long.
func (s *session) validity(t *fleetv1.Token) cell {
	switch {
	case t.GetRevokedAt() != nil:
		return cell{"revoked " + s.age(t.GetRevokedAt()) + " ago", red}
	case t.GetExpiresAt() == nil:
		return cell{"valid", green}
	}
	left := t.GetExpiresAt().AsTime().Sub(s.deps.Now())
	if left <= 0 {
		return cell{"expired", red}
	}
	return cell{"valid for " + span(left), green}
}

func (p *program) newTokenRevoke() *cobra.Command {
	return &cobra.Command{
		Use:   "revoke NAME",
		Short: "Revoke a token: it is refused from now on",
		Long: `Revoke a token. Whoever holds it is refused from now on; what it made stays.
A token revoked by mistake cannot be given back: create another one.`,
		Example:           `  fleet token revoke ci`,
		Args:              args("NAME"),
		ValidArgsFunction: first(p.completeTokens),
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			resp, err := s.tokens.RevokeToken(ctx, &fleetv1.RevokeTokenRequest{Name: args[0]})
			if err != nil {
				return err
			}
			return s.print(resp, func() { s.say(resp.GetMessage(), resp.GetToken().GetName()) })
		}),
	}
}
