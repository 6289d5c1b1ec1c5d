package app

import (
	"context"

	"fleet/internal/admission"
	"fleet/internal/face/mcp"
	"fleet/internal/face/page"
	"fleet/internal/face/protected"
	"fleet/internal/fleet"
	"fleet/internal/identity/oidc"
)

// openIssuer sets a.issuer if the configuration has auth oidc and the options do not replace authentication. It does
// not connect to the issuer.
func (a *App) openIssuer(o Options) (err error) {
	if !a.cfg.Auth.Has(AuthOIDC) || o.Auth != nil {
		return nil
	}
	recordSubject := func(ctx context.Context, s fleet.Subject) (string, error) { return a.service.RecordSubject(ctx, s) }
	a.issuer, err = oidc.New(a.cfg.OIDC, recordSubject, a.log, a.store.Now)
	return err
}

// protectedResource returns the metadata that tells OAuth clients where to sign in. It returns nil if there is no issuer.
func (a *App) protectedResource() *protected.Resource {
	if a.issuer == nil {
		return nil
	}
	c := a.issuer.Config()
	return &protected.Resource{Issuer: c.Issuer, Scopes: c.Scopes, CLIClientID: c.CLIClientID, PublicURL: a.cfg.PublicURL, Endpoints: mcp.Paths()}
}

// sessionConfig returns the configuration of browser sessions.
func (a *App) sessionConfig() page.SessionConfig {
	c := page.SessionConfig{
		Identify: func(ctx context.Context, authorization []string) error {
			ctx, err := a.identifyREST(ctx, "", authorization)
			if err != nil {
				return err
			}
			return admission.CheckLimits(ctx)
		},
		Leases: a.store, LinkKey: a.faceKey, Auth: a.cfg.Auth, PublicURL: a.cfg.PublicURL,
	}
	if a.issuer != nil {
		c.Issuer, c.IssuerURL = pageIssuer{a.issuer}, a.issuer.Config().Issuer
	}
	return c
}

// pageIssuer is the issuer for the page. It converts errors to the errors that callers get.
type pageIssuer struct{ issuer *oidc.Issuer }

// AuthURL implements page.Issuer.
func (p pageIssuer) AuthURL(ctx context.Context, redirect, state, nonce, verifier string) (string, error) {
	address, err := p.issuer.AuthURL(ctx, redirect, state, nonce, verifier)
	return address, callError(err)
}

// Exchange implements page.Issuer.
func (p pageIssuer) Exchange(ctx context.Context, redirect, code, nonce, verifier string) (token, refresh string, err error) {
	token, refresh, err = p.issuer.Exchange(ctx, redirect, code, nonce, verifier)
	return token, refresh, callError(err)
}

// Refresh implements page.Issuer.
func (p pageIssuer) Refresh(ctx context.Context, refresh string) (token, next string, err error) {
	token, next, err = p.issuer.Refresh(ctx, refresh)
	return token, next, callError(err)
}

// EndSessionURL implements page.Issuer.
func (p pageIssuer) EndSessionURL(ctx context.Context, token string) (string, error) {
	address, err := p.issuer.EndSessionURL(ctx, token)
	return address, callError(err)
}

// callError returns the error that callers get for err, or nil if err is nil.
func callError(err error) error {
	if err == nil {
		return nil
	}
	return admission.Error(err)
}
