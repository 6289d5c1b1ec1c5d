package app

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/model/definition"
	"fleet/internal/place/coder"
	"fleet/internal/place/fake"
	"fleet/internal/place/local"
	"fleet/internal/price"
	"fleet/internal/runner/remote"
	"fleet/internal/service"
)

// modelCommand is the hidden first argument with which the program executes one run of a model.
const modelCommand = "model-run"

// places makes the places of this process, each once.
type places struct {
	cfg     Config
	options Options
	store   fleet.Store
	catalog *definition.Catalog // the definitions of agents on models
	prices  *price.List
	log     *slog.Logger
	wrap    func(http.RoundTripper) http.RoundTripper // gives a transport traces, and lets its requests release the slots of their calls
	byName  map[string]fleet.Place                    // the places made so far
	service func() *service.Service                   // the service that the places call; it is made after the places
}

// placeNames are the names of places that error messages offer for the configuration.
var placeNames = []string{"cagent", "coder", "local"}

// fakePlace is a place without real agents, for tests and for trying clients. The configuration accepts it, but error
// messages do not offer it.
const fakePlace = "fake"

// getOrCreate returns the place with the name. The first call with a name creates the place.
func (p *places) getOrCreate(name string) (place fleet.Place, err error) {
	if place = p.byName[name]; place != nil {
		return place, nil
	}
	switch name {
	case "local":
		place, err = p.newLocal()
	case "coder":
		place, err = p.newCoder()
	case "cagent":
		place, err = p.newModels()
	case fakePlace:
		place = fake.New(fake.Config{})
	default:
		err = fmt.Errorf("the places are %s", strings.Join(placeNames, ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("place %s: %w", name, err)
	}
	p.byName[name] = place
	return place, nil
}

// fleetPlaces returns the places of the fleet's agents: those in the options if there are any, else those in the
// configuration.
func (p *places) fleetPlaces() (all []fleet.Place, err error) {
	for _, place := range p.options.Places {
		p.byName[place.Traits().Name] = place
	}
	if len(p.options.Places) > 0 {
		return p.options.Places, nil
	}
	for _, name := range p.cfg.Places {
		place, err := p.getOrCreate(name)
		if err != nil {
			return nil, err
		}
		all = append(all, place)
	}
	return all, nil
}

// toolsetPlaces returns the places that agents of other toolsets need. Some of these places may also be places of the fleet.
// It leaves out a place that cannot be used, such as cagent in a build without cgo, and logs a warning.
func (p *places) toolsetPlaces() (all []fleet.Place, err error) {
	names := []string{"local", "cagent"}
	if p.cfg.Coder.URL != "" { // a login that `coder login` left on this machine is used only if the configuration names the deployment
		names = append(names, "coder")
	}
	for _, name := range names {
		place, err := p.getOrCreate(name)
		if fleet.ReasonOf(err) == fleet.ReasonBackendUnavailable {
			p.log.WarnContext(context.Background(), "place unavailable, continuing without it", slog.String("place", name), slog.Any("error", err))
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, place)
	}
	return all, nil
}

// close closes the places in p.byName.
func (p *places) close() error {
	var errs []error
	for _, place := range p.byName {
		errs = append(errs, place.Close())
	}
	return errors.Join(errs...)
}

// newLocal returns the place of agents on this machine.
func (p *places) newLocal() (fleet.Place, error) {
	c, err := p.cfg.localConfig()
	if err != nil {
		return nil, err
	}
	if c.Models, err = p.modelsConfig(); err != nil {
		return nil, err
	}
	c.Logger = p.log
	if p.options.Local != nil {
		p.options.Local(&c)
	}
	return local.New(c)
}

// localConfig returns the configuration of the place of agents on this machine.
func (c Config) localConfig() (local.Config, error) {
	supervisor, err := c.supervisor(context.Background())
	if err != nil {
		return local.Config{}, fmt.Errorf("cannot find the path of this program, which supervises runs: %w", err)
	}
	return local.Config{
		Name: fleet.PlaceOn("local", c.Replica), Dir: c.Data, Projects: projectsOf(c), Program: supervisor, PassEnv: c.Local.PassEnv,
		Sandbox: c.Local.Sandbox, Read: c.Local.Read, Write: c.Local.Write, PrivateFiles: c.privateFiles(),
		MaxPayloadOutput: c.MaxOutput, MaxRawOutput: c.Output.Max, StopGrace: c.StopGrace,
		KeptRetention: c.KeptRetention, KeptMax: c.KeptMax, CacheMax: c.Local.CacheMax,
	}, nil
}

// projectsOf returns the configured projects of the local place, or those that it offers without configuration.
func projectsOf(cfg Config) []local.Project {
	if len(cfg.Local.Projects) == 0 {
		return local.Discover(exec.LookPath)
	}
	return cfg.Local.Projects
}

// newCoder returns the place of agents in Coder workspaces. It uses the deployment and the token of Coder's own command
// line, unless the configuration or the environment names another deployment or token.
func (p *places) newCoder() (fleet.Place, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		home = ""
	}
	c := p.cfg.Coder
	if c.URL = p.cfg.coderURL(); c.URL == "" {
		return nil, errors.New("no Coder deployment configured: set CODER_URL or coder.url, or log in with `coder login`")
	}
	c.RenewHint = coder.RenewTokenHint(os.Getenv, home, c.TokenFile)
	c.Token, c.Logger, c.WrapTransport, c.Now = coder.FindToken(os.Getenv, home, c.TokenFile), p.log, p.wrap, p.store.Now
	if c.RunnerKey, err = runnerKey(context.Background(), p.store); err != nil {
		return nil, err
	}
	c.RememberUser = func(ctx context.Context, user string) (string, error) {
		stored, err := p.store.EnsureSecret(ctx, "coder-user", []byte(user))
		return string(stored), err
	}
	if p.cfg.Auth.Has(AuthCoder) {
		c.Users = coderPrincipals{p.service}
	}
	return coder.New(c)
}

// runnerKey returns the key with which Fleet signs its requests to runners. All servers of a store share it.
func runnerKey(ctx context.Context, store fleet.Store) (ed25519.PrivateKey, error) {
	seed, err := store.EnsureSecret(ctx, "runner", remote.NewSeed())
	if err != nil {
		return nil, err
	}
	return remote.PrivateKey(seed)
}
