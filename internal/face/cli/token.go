package cli

import (
	"time"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newToken() *cobra.Command {
	cmd := Group(&cobra.Command{
		Use:     "token",
		Aliases: []string{"tokens"},
		Short:   "Manage the tokens that callers identify themselves with",
		Long: `A server with --auth tokens requires a token from every caller. The token's name is
the caller's name, and everything that the caller creates belongs to that name.

Create the first token on the server's machine while the server is stopped:
"fleet token create NAME --admin --embedded".`,
		Example: `  fleet token create alice --admin --embedded
  fleet token create ci --kind controller --ttl 90d
  fleet token create dashboard --scope read
  fleet token rotate ci --overlap 1h
  fleet token list`,
	})
	cmd.AddCommand(
		p.newTokenCreate(),
		p.newTokenList(),
		callsTool(callsTool(p.newTokenRotate(), "rotate_token"), "rotate_own_token"),
		callsTool(p.newTokenRevoke(), "revoke_token", "token"),
	)
	return cmd
}

func (p *program) newTokenCreate() *cobra.Command {
	req := &fleetv1.CreateTokenRequest{Kind: fleetv1.Token_human}
	cmd := methodCommand(p, &cobra.Command{
		Use:   "create NAME",
		Short: "Create a token and print its secret, once",
		Long: `Create a token. Its secret is printed on standard output only this once, because
Fleet keeps only a hash of it.

Keep the secret in a file that only its holder can read, and give the file with
--token-file or FLEET_TOKEN_FILE.`,
		Example: `  (umask 077; fleet token create alice --admin > ~/.fleet-token)
  fleet token create ci --kind controller --ttl 90d --project Setup
  fleet token create alice --admin --embedded     # while the server is stopped`,
	}, fleetv1.TokenServiceClient.CreateToken, req, func(s *session, resp *fleetv1.CreateTokenResponse) {
		s.screen.print(resp.GetSecret() + "\n")
		if n := resp.GetOwnedAgents(); n > 0 {
			s.hint("The holder of the new token also owns the %d existing agents of an earlier token %q.",
				n, resp.GetToken().GetName())
		}
		s.hintTokenSecret(resp.GetToken())
	})
	addEnum(cmd, &req.Kind, fleetv1.Token_Kind_name, "kind", "the `KIND` of its holder: human, controller (an AI) or agent")
	addEnum(cmd, &req.Scope, fleetv1.Scope_name, "scope", "the holder's rights are `SCOPE`: read, run (the default) or admin")
	cmd.Flags().StringArrayVar(&req.Projects, "project", nil, "the token is valid for agents of `PROJECT` only; can be repeated")
	cmd.Flags().BoolVar(&req.Admin, "admin", false, "the holder can see and change what belongs to others too; same as --scope admin")
	addSeconds(cmd, "ttl", "the token expires after `DURATION`, such as 12h or 90d (default never)", func(n int32) { req.TtlSeconds = n })
	return cmd
}

func (p *program) newTokenList() *cobra.Command {
	return methodCommand(p, &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the tokens, without their secrets",
		Long:    `List the tokens: who holds each token, and how long it is valid.`,
		Example: `  fleet token list`,
	}, fleetv1.TokenServiceClient.ListTokens, &fleetv1.ListTokensRequest{}, func(s *session, resp *fleetv1.ListTokensResponse) {
		printList(s, resp.GetTokens(), "There are no tokens. Create one: fleet token create NAME",
			column{"NAME", "name"}, column{"KIND", "kind"}, column{"SCOPE", "scope"}, column{"PROJECTS", "projects"}, column{"AGE", (*fleetv1.Token).GetCreatedAt}, column{"STATUS", s.validityCell})
	})
}

// expiryWarning is the remaining validity below which the list marks a token as expiring.
const expiryWarning = 7 * 24 * time.Hour

// validityCell returns whether a token is valid, and for how long.
func (s *session) validityCell(t *fleetv1.Token) cell {
	end, replaced := t.GetExpiresAt(), false
	if revokedAt := t.GetRevokedAt(); revokedAt != nil {
		if !revokedAt.AsTime().After(s.deps.Now()) {
			return cell{"revoked " + s.ageText(revokedAt) + " ago", red}
		}
		end, replaced = revokedAt, true
	}
	if end == nil {
		return cell{"valid", green}
	}
	left := end.AsTime().Sub(s.deps.Now())
	switch {
	case left <= 0:
		return cell{"expired", red}
	case replaced:
		return cell{"replaced, valid for " + timeLeftText(left), yellow}
	case left < expiryWarning:
		return cell{"expires in " + timeLeftText(left), yellow}
	}
	return cell{"valid for " + timeLeftText(left), green}
}

// hintTokenSecret prints a hint that the secret is not shown again.
func (s *session) hintTokenSecret(t *fleetv1.Token) {
	s.hint("The secret of %q is shown only this once. Keep it in a file, and give the file with --token-file.", t.GetName())
}

func (p *program) newTokenRevoke() *cobra.Command {
	return methodCommand(p, &cobra.Command{
		Use:   "revoke NAME",
		Short: "Revoke a token: it is refused from now on",
		Long: `Revoke a token. Its holder is refused from now on. What the holder created stays.
This cannot be undone: create another token instead.`,
		Example:           `  fleet token revoke ci`,
		ValidArgsFunction: p.completionFrom(completeTokens),
	}, fleetv1.TokenServiceClient.RevokeToken, &fleetv1.RevokeTokenRequest{}, printMessage[*fleetv1.RevokeTokenResponse])
}
