package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/scratch"
)

func (p *program) newTokenRotate() *cobra.Command {
	req := &fleetv1.RotateTokenRequest{}
	cmd := &cobra.Command{
		Use:   "rotate [NAME]",
		Short: "Give a token a new secret",
		Long: `Give a token a new secret. Its name, kind and scope stay, so its holder keeps what it
owns. The old secret is refused at once, unless --overlap lets both work for a while.

With NAME, the command prints the new secret once; only admins can do this. Without NAME,
it rotates the token that you use; everyone can do this. The new secret then replaces the
old one in the file of --token-file or FLEET_TOKEN_FILE. It is printed only if the token
is not from a file. It expires no later than the old secret.`,
		Example: `  (umask 077; fleet token rotate ci --overlap 1h > ci-token.new)
  fleet token rotate ci --ttl 90d
  fleet token rotate --token-file ~/.fleet-token     # the one in the file`,
		ValidArgsFunction: p.completionFrom(completeTokens),
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			if len(args) == 0 {
				return s.rotateOwnToken(ctx, &fleetv1.RotateOwnTokenRequest{TtlSeconds: req.GetTtlSeconds(), OverlapSeconds: req.GetOverlapSeconds()})
			}
			req.Name = args[0]
			resp, err := s.tokens.RotateToken(ctx, req)
			return s.print(resp, err, func() {
				s.screen.print(resp.GetSecret() + "\n")
				s.hintOldSecret(resp.GetOldSecretEndsAt())
				s.hintTokenSecret(resp.GetToken())
			})
		}),
	}
	addSeconds(cmd, "ttl", "the new secret expires after `DURATION` (default: the lifetime that the old one was created with)", func(n int32) { req.TtlSeconds = n })
	addSeconds(cmd, "overlap", "the old secret stays valid for `DURATION`, at most 7d", func(n int32) { req.OverlapSeconds = n })
	return cmd
}

// rotateOwnToken rotates the token that the command uses. If the token is from a file, rotateOwnToken replaces it in that file.
func (s *session) rotateOwnToken(ctx context.Context, req *fleetv1.RotateOwnTokenRequest) error {
	if s.target.TokenFile == "" {
		resp, err := s.tokens.RotateOwnToken(ctx, req)
		return s.print(resp, err, func() {
			s.screen.print(resp.GetSecret() + "\n")
			s.hintOldSecret(resp.GetOldSecretEndsAt())
			s.hintTokenSecret(resp.GetToken())
		})
	}
	file, err := newReplacement(s.target.TokenFile)
	if err != nil { // the old secret still works
		return Fail(ExitError, "give the token in FLEET_TOKEN to have the new one printed", "the token file cannot be replaced, so the token was not rotated: %v", err)
	}
	defer file.discard()
	resp, err := s.tokens.RotateOwnToken(ctx, req)
	if err != nil {
		return err
	}
	if err := file.write(resp.GetSecret() + "\n"); err != nil { // print the secret, or the holder would be locked out
		s.screen.print(resp.GetSecret() + "\n")
		return Fail(ExitError, "keep the secret that was printed", "the token is rotated, but the token file cannot be written: %v", err)
	}
	resp.Secret = ""
	return s.print(resp, nil, func() {
		s.printResult("The new secret is in "+s.target.TokenFile+".", resp.GetToken().GetName())
		s.hintOldSecret(resp.GetOldSecretEndsAt())
	})
}

// hintOldSecret prints a hint that says how long the old secret works.
func (s *session) hintOldSecret(endsAt *timestamppb.Timestamp) {
	if left := endsAt.AsTime().Sub(s.deps.Now()); left > 0 {
		s.hint("The old secret works for another %s.", timeLeftText(left))
		return
	}
	s.hint("The old secret is refused from now on.")
}

// replacement holds the new content of a file in a temporary file in the same directory.
type replacement struct {
	path string
	temp *os.File
}

// newReplacement prepares to replace the content of the file. An error means that write could not succeed.
func newReplacement(path string) (*replacement, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New(path + " is not a regular file")
	}
	temp, err := scratch.CreateTemp(path)
	if err != nil {
		return nil, err
	}
	r := &replacement{path, temp}
	if err := temp.Chmod(info.Mode().Perm()); err != nil {
		r.discard()
		return nil, err
	}
	return r, nil
}

// write replaces the content of the file.
func (r *replacement) write(content string) error {
	_, err := r.temp.WriteString(content)
	if err = errors.Join(err, r.temp.Sync(), r.temp.Close()); err == nil {
		err = os.Rename(r.temp.Name(), r.path)
	}
	return err
}

// discard removes the temporary file, unless write has moved it to the path.
func (r *replacement) discard() {
	_ = r.temp.Close() // write may have closed it
	_ = os.Remove(r.temp.Name())
}
