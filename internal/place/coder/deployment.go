package coder

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coder/coder/v2/codersdk"
)

const (
	deploymentAge   = 10 * time.Minute // how long the addresses of the deployment are cached
	deploymentRetry = time.Minute      // how long after a failure they are requested again
)

// deployment caches the addresses at which people reach the deployment. Fleet itself may use another one, Config.URL.
type deployment struct {
	mu          sync.Mutex
	cachedUntil time.Time
	accessURL   *url.URL // Coder's access URL; nil if it is not known
	appHost     string   // the host name of apps and ports, such as *.apps.example.com; empty if Coder has none
}

// readDeployment requests the addresses of the deployment if they are not cached. A failure is not an error: without the
// addresses, links begin with Config.URL, and ports have no links.
func (p *Place) readDeployment(ctx context.Context) {
	d := &p.deployment
	d.mu.Lock()
	defer d.mu.Unlock()
	if p.config.Now().Before(d.cachedUntil) {
		return
	}
	accessURL, appHost, err := p.requestDeployment(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		p.config.Logger.DebugContext(ctx, "cannot read the addresses of the deployment", "error", err)
		d.cachedUntil = p.config.Now().Add(deploymentRetry)
		return
	}
	d.accessURL, d.appHost, d.cachedUntil = accessURL, appHost, p.config.Now().Add(deploymentAge)
}

// requestDeployment requests the addresses of the deployment. accessURL is nil if Coder's answer has no valid one.
func (p *Place) requestDeployment(ctx context.Context) (accessURL *url.URL, appHost string, err error) {
	info, err := callCoder(ctx, "asking Coder for its address", p.self.sdk.BuildInfo)
	if err != nil {
		return nil, "", err
	}
	if accessURL, err = url.Parse(info.DashboardURL); err != nil || accessURL.Host == "" {
		accessURL = nil
	}
	host, err := callCoder(ctx, "asking Coder for the address of apps", func(ctx context.Context) (codersdk.AppHostResponse, error) {
		return p.self.sdk.AppHost(ctx)
	})
	return accessURL, host.Host, err
}

// addresses returns the URL of Coder's pages, which is Config.URL if the access URL is not known, and the host name of apps and
// ports with a * for the name of the app. The host name is empty if Coder has none or the access URL is not known.
func (p *Place) addresses() (accessURL *url.URL, appHost string) {
	d := &p.deployment
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.accessURL == nil {
		return p.url, ""
	}
	return d.accessURL, d.appHost
}

// location returns the URL of the workspace's page in Coder.
func (p *Place) location(ws codersdk.Workspace) string {
	accessURL, _ := p.addresses()
	return accessURL.JoinPath("@"+ws.OwnerName, ws.Name).String()
}

// appURL returns the URL of an app or a port that has its own host name. name takes the place of the * in appHost.
func appURL(accessURL *url.URL, appHost, name string) string {
	u := url.URL{Scheme: accessURL.Scheme, Host: strings.ReplaceAll(appHost, "*", name), Path: "/"}
	return u.String()
}
