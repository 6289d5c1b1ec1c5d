package cli

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/cli/login"
)

func (p *program) newLogin() *cobra.Command {
	var device bool
	cmd := &cobra.Command{
		Use:   "login [SERVER]",
		Short: "Sign in to a server with its issuer",
		Long: `Sign in to a server that runs with --auth oidc. Your browser opens and the issuer asks
who you are. On a machine without a browser, or with --device, you get an address and a
code to enter on another device.

Later commands to this server use the sign-in, unless you give a token. The tokens are
kept in your keyring or, if you have none, in a file that only you can read.`,
		Example: `  fleet login
  fleet login fleet.example.com:8102
  fleet login --device`,
		RunE: p.loginAction(func(ctx context.Context, s *session) error {
			issuer, err := s.findIssuer(ctx)
			if err != nil {
				return err
			}
			tokens, err := s.signIn(ctx, issuer, device)
			if err != nil && ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				return Fail(ExitDenied, "", "you are not signed in: %v", err)
			}
			inKeyring, err := p.deps.Logins.Save(s.target.Server, issuer, tokens)
			if err != nil {
				return fmt.Errorf("cannot store the sign-in: %w", err)
			}
			where := "a file in " + p.deps.Logins.Dir
			if inKeyring {
				where = "your keyring"
			}
			s.printResult(fmt.Sprintf("You are signed in to %s as %s of %s. The tokens are in %s.", s.target.Server, tokens.PersonName, issuer.URL, where), tokens.PersonName)
			return s.checkLogin(ctx)
		}),
	}
	cmd.Flags().BoolVar(&device, "device", false, "sign in on another device, by entering a code there")
	return cmd
}

func (p *program) newLogout() *cobra.Command {
	return &cobra.Command{
		Use:   "logout [SERVER]",
		Short: "Forget the sign-in to a server",
		Long: `Forget the sign-in of "fleet login" to a server, and ask the issuer to end the session.
Tokens of "fleet token create" are not affected.`,
		Example: `  fleet logout
  fleet logout fleet.example.com:8102`,
		RunE: p.loginAction(func(ctx context.Context, s *session) error {
			found, err := p.deps.Logins.Forget(ctx, s.target.Server)
			switch {
			case !found && err == nil:
				s.printResult("You were not signed in to "+s.target.Server+".", "")
			case found:
				s.printResult("You are signed out of "+s.target.Server+".", s.target.Server)
				if err != nil {
					s.note("The issuer did not end the session, so the session stays valid until it expires: %v", err)
				}
				return nil
			}
			return err
		}),
	}
}

// loginAction returns the function that cobra runs for a command about the sign-in to a server. Unlike action, the function does not
// connect to the server.
func (p *program) loginAction(do func(ctx context.Context, s *session) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			p.server = args[0]
		}
		target, err := p.target()
		if err != nil {
			return err
		}
		if target.Embedded {
			return usagef("--embedded has no sign-in: whoever can read the data may do everything")
		}
		ctx, cancel := p.withTimeout(cmd.Context())
		defer cancel()
		s := &session{program: p, cmd: cmd, target: target, screen: p.newScreen()}
		if err := do(ctx, s); err != nil {
			return p.explain(ctx, err, target)
		}
		return nil
	}
}

// findIssuer asks the server for its HTTP address, and returns the issuer that the server names there.
func (s *session) findIssuer(ctx context.Context) (*login.Issuer, error) {
	target := s.target
	target.Token, target.Login = "", nil
	connection, closeConn, err := s.deps.Dial(ctx, target)
	if err != nil {
		return nil, err
	}
	defer func() { _ = closeConn() }() // no call is under way
	server, err := fleetv1.NewHealthServiceClient(connection).ShowServer(ctx, &fleetv1.ShowServerRequest{})
	if err != nil {
		return nil, err
	}
	if server.GetUrl() == "" {
		return nil, Fail(ExitState, "", "%s serves no HTTP, so it cannot name its issuer", s.target.Server)
	}
	client, err := target.httpClient()
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	issuer, err := login.FindIssuer(ctx, client, server.GetUrl())
	if errors.Is(err, login.ErrNoIssuer) {
		return nil, Fail(ExitState, "give a token with --token-file FILE or FLEET_TOKEN", "%s has no issuer to sign in with", s.target.Server)
	}
	return issuer, err
}

// signIn signs the person in. It uses another device if device is set, or if this machine has no browser and the issuer has a device flow.
// Otherwise it uses a browser on this machine.
func (s *session) signIn(ctx context.Context, issuer *login.Issuer, device bool) (login.Tokens, error) {
	if device && !issuer.HasDeviceFlow {
		return login.Tokens{}, fmt.Errorf("the issuer %s has no device flow: leave --device out", issuer.URL)
	}
	if device || issuer.HasDeviceFlow && !s.hasBrowser() {
		return issuer.SignInOnDevice(ctx, func(address, code string) {
			s.screen.printErrLine("Open " + printable(address) + "\nand enter the code " + printable(code))
		})
	}
	return issuer.SignInWithBrowser(ctx, func(address string) {
		if !s.hasBrowser() || openBrowser(ctx, address) != nil {
			s.screen.printErrLine("Open this address in a browser on this machine:\n" + printable(address))
			return
		}
		s.note("Your browser opens to sign in to %s ...", issuer.URL)
	})
}

// hasBrowser reports whether the person can probably see a browser of this machine. It returns false in an SSH session.
func (s *session) hasBrowser() bool {
	if s.deps.Getenv("SSH_CONNECTION") != "" {
		return false
	}
	return runtime.GOOS == "darwin" || runtime.GOOS == "windows" || s.deps.Getenv("DISPLAY") != "" || s.deps.Getenv("WAYLAND_DISPLAY") != ""
}

// checkLogin makes a call with the new sign-in, so that a person without access to the server gets the error now.
func (s *session) checkLogin(ctx context.Context) error {
	target := s.target
	target.Token, target.Login = "", &login.TokenSource{Store: s.deps.Logins, Server: target.Server}
	connection, closeConn, err := s.deps.Dial(ctx, target)
	if err != nil {
		return err
	}
	defer func() { _ = closeConn() }() // no call is under way
	_, err = fleetv1.NewFleetServiceClient(connection).ListAgents(ctx, &fleetv1.ListAgentsRequest{})
	return err
}
