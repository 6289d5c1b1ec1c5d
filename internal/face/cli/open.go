package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/loopback"
)

func (p *program) newOpen() *cobra.Command {
	var printOnly bool
	cmd := &cobra.Command{
		Use:   "open",
		Short: "Open the live page in a browser, signed in",
		Long: `Open the live page of the server in a browser. If the server requires tokens, the
command opens a link that signs you in with your token. The link works once, within a
minute, and does not contain the token.`,
		Example: `  fleet open
  fleet open --print    # on a machine without a browser: open the link elsewhere`,
		RunE: p.action(func(ctx context.Context, s *session, _ []string) error {
			server, err := fleetv1.NewHealthServiceClient(s.conn).ShowServer(ctx, &fleetv1.ShowServerRequest{})
			if err != nil {
				return err
			}
			if server.GetUrl() == "" {
				return Fail(ExitError, "start one that does: fleet serve", "this server has no live page, because it serves no HTTP")
			}
			address := server.GetUrl() + "/"
			code, err := newLinkCode(ctx, server.GetUrl(), s.target)
			if err != nil {
				return err
			}
			if code != "" {
				address += "#code=" + code
			}
			if printOnly || openBrowser(ctx, address) != nil {
				_, err = fmt.Fprintln(p.deps.Stdout, address)
				return err
			}
			s.screen.printErrLine("The page is open in your browser: " + server.GetUrl())
			return nil
		}),
	}
	cmd.Flags().BoolVar(&printOnly, "print", false, "print the link and open nothing")
	return cmd
}

// newLinkCode asks the server for a code with which a link to the page signs in once, as the owner of t's token. It returns "" if the
// server requires no token.
func newLinkCode(ctx context.Context, server string, t Target) (string, error) {
	token, err := t.token(ctx)
	if err != nil {
		return "", err
	}
	if err := checkPageURL(server, t, token != ""); err != nil {
		return "", err
	}
	client, err := t.httpClient()
	if err != nil {
		return "", err
	}
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server+"/session/links", http.NoBody)
	if err != nil {
		return "", err
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(r)
	if err != nil {
		return "", Fail(ExitUnavailable, "", "cannot reach the server's page: %v", err)
	}
	defer resp.Body.Close()
	var body struct{ Code, Message string }
	if err := json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&body); err != nil || resp.StatusCode != http.StatusOK {
		return "", Fail(ExitError, "", "cannot get a link to the page: %s", printable(cmp.Or(body.Message, "the server answered "+resp.Status)))
	}
	return body.Code, nil
}

// checkPageURL returns an error if the page is not at the server, or if a token would cross the network unencrypted. address is the URL of the
// page as the server gives it. Without public_url, that is the address of its listener.
func checkPageURL(address string, t Target, withToken bool) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	onThisMachine := loopback.Is(u.Hostname())
	switch {
	case onThisMachine && !t.Embedded && !loopback.IsAddress(t.Server):
		return Fail(ExitError, "set public_url in the server's configuration", "the server gives %s as the address of its page, which is this machine and not %s", printable(address), t.Server)
	case withToken && u.Scheme != "https" && !onThisMachine && !t.Insecure:
		return Fail(ExitError, "let the server use https, or add --insecure if nobody else can read this network", "the token would go to %s unencrypted", printable(address))
	}
	return nil
}

// openBrowser opens the address with the desktop's default program. The address may contain a secret code, and other users can
// read the command lines of programs. So openBrowser writes a page that redirects to the address into a file that only this user can read,
// and opens that file.
func openBrowser(ctx context.Context, address string) error {
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	file := filepath.Join(cache, "fleet", "open.html")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	page := fmt.Sprintf("<!doctype html><meta http-equiv=\"refresh\" content=\"0; url=%s\">\n", html.EscapeString(address))
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		return err
	}
	name, arguments := "xdg-open", []string{file}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, arguments = "rundll32", []string{"url.dll,FileProtocolHandler", file}
	}
	return exec.CommandContext(ctx, name, arguments...).Run()
}
