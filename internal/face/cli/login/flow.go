package login

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// SignInOnDevice signs a person in on another device (RFC 8628). It calls show to tell the person which address to open and which code to enter,
// and then waits until the person has signed in or the code has expired.
func (i *Issuer) SignInOnDevice(ctx context.Context, show func(address, code string)) (Tokens, error) {
	d, err := i.config.DeviceAuth(ctx)
	if err != nil {
		return Tokens{}, stripBody(err)
	}
	show(cmp.Or(d.VerificationURIComplete, d.VerificationURI), d.UserCode)
	t, err := i.config.DeviceAccessToken(ctx, d)
	if err != nil {
		return Tokens{}, stripBody(err)
	}
	return i.tokensOf(ctx, t, "")
}

// SignInWithBrowser signs a person in with a browser on this machine. The issuer redirects the browser to a loopback address
// (RFC 8252). SignInWithBrowser calls show, which opens the issuer's address in the browser or tells the person to open it. Then it waits for the
// redirect until ctx is done.
func (i *Issuer) SignInWithBrowser(ctx context.Context, show func(address string)) (Tokens, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return Tokens{}, err
	}
	config := i.config
	config.RedirectURL = "http://" + l.Addr().String() + "/callback"
	state, nonce, verifier := rand.Text(), rand.Text(), oauth2.GenerateVerifier()
	type result struct {
		code string
		err  error
	}
	results := make(chan result, 1)
	server := &http.Server{ReadHeaderTimeout: requestTimeout, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if r.URL.Path != "/callback" || subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(state)) == 0 {
			http.NotFound(w, r) // not the issuer's redirect: for example, the browser requests an icon
			return
		}
		res := result{code: q.Get("code")}
		text := "You are signed in. You can close this window."
		if res.code == "" {
			res.err = fmt.Errorf("the issuer refused: %s", q.Get("error"))
			text = "You are not signed in. The terminal says why."
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Connection", "close")
		_, _ = io.WriteString(w, text+"\n") // the browser may have closed the connection
		select {
		case results <- res:
		default: // a second answer
		}
	})}
	serveDone := make(chan struct{})
	go func() {
		defer close(serveDone)
		_ = server.Serve(l) // ends with Shutdown
	}()
	defer func() {
		_ = server.Shutdown(context.WithoutCancel(ctx)) // waits until the browser has its answer
		<-serveDone
	}()
	show(config.AuthCodeURL(state, oidc.Nonce(nonce), oauth2.S256ChallengeOption(verifier)))
	select {
	case res := <-results:
		if res.err != nil {
			return Tokens{}, res.err
		}
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		t, err := config.Exchange(ctx, res.code, oauth2.VerifierOption(verifier))
		if err != nil {
			return Tokens{}, stripBody(err)
		}
		return i.tokensOf(ctx, t, nonce)
	case <-ctx.Done():
		return Tokens{}, context.Cause(ctx)
	}
}
