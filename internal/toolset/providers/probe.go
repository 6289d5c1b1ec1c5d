package providers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"time"
	"unicode"

	"fleet/internal/fleet"
)

// Status says whether a provider would work now, or why not.
type Status string

// The statuses of a provider.
const (
	StatusOperative   Status = "operative"   // it would work
	StatusKeyMissing  Status = "key_missing" // its key is not in the server's environment
	StatusUnreachable Status = "unreachable" // its model server does not answer, or not correctly
	StatusUnavailable Status = "unavailable" // it does not exist, its model or program is missing, or its server refuses
)

// ProbeResult is the result of a probe. Its Detail is for people and never contains a key.
type ProbeResult struct {
	Name    string // of the provider
	Status  Status
	Detail  string
	Latency time.Duration // how long the probe took
}

// maxConcurrentProbes is how many providers are probed concurrently.
const maxConcurrentProbes = 16

// maxShownModels is the largest number of models that a detail lists.
const maxShownModels = 8

// ProbeEnvironment gives probes access to the network and to programs on the server's machine. When their context is done, both
// methods return promptly with the context's error. They are safe for concurrent use.
type ProbeEnvironment interface {
	// Get requests the URL with the headers and returns the status and at most 1 MiB of the body. It does not follow
	// redirects, because the headers may contain a key. An error means that there was no valid HTTP answer.
	Get(ctx context.Context, url string, header map[string]string) (status int, body []byte, err error)

	// Version finds the program on the server's PATH and runs it with --version, without input and without keys in its
	// environment. It returns the program's path and the beginning of the program's output, and kills processes that the
	// program leaves behind. It returns exec.ErrNotFound if the program is not found. If the program fails, Version
	// returns an error and also the path.
	Version(ctx context.Context, program string) (path, output string, err error)
}

// sharedProbe probes the provider. Concurrent callers share one probe, and each waits for its end, even if its
// ctx ends earlier, so that no probe outlives its calls. sharedProbe gives up the slot of the call first.
func (s *Service) sharedProbe(ctx context.Context, p *Provider) (ProbeResult, error) {
	fleet.ReleaseSlot(ctx)
	result, _, _ := s.probes.Do(p.Name, func() (any, error) { return s.probe(context.WithoutCancel(ctx), p), nil })
	return result.(ProbeResult), ctx.Err() //nolint:forcetypeassert // the function above returns nothing else
}

// probe probes one provider.
func (s *Service) probe(ctx context.Context, p *Provider) (result ProbeResult) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ProbeTimeout)
	defer cancel()
	defer func() { // a panic in one probe affects only that probe
		if panicked := recover(); panicked != nil {
			s.log.ErrorContext(ctx, "probe panicked", slog.String("agent", p.Name), slog.String("panic", s.redact(fmt.Sprint(panicked))))
			result = ProbeResult{Name: p.Name, Status: StatusUnavailable, Detail: "The probe itself failed: the server's log has the cause"}
		}
	}()
	started := time.Now()
	result.Name = p.Name
	switch p.Kind {
	case KindCLI:
		result.Status, result.Detail = s.probeProgram(ctx, p)
	case KindLocal:
		result.Status, result.Detail = s.probeServer(ctx, p)
	default:
		result.Status, result.Detail = s.probeAPI(ctx, p)
	}
	result.Latency = time.Since(started)
	result.Detail = s.redact(result.Detail)
	return result
}

// probeAPI checks that the provider's key is set, and that its API accepts the key.
func (s *Service) probeAPI(ctx context.Context, p *Provider) (Status, string) {
	variable, key := s.findKey(p)
	if variable == "" {
		return StatusKeyMissing, missingKeyText(p)
	}
	code, body, err := s.probeEnvironment.Get(ctx, modelsURL(p), keyHeader(p, key))
	if err != nil {
		return StatusUnreachable, fmt.Sprintf("The key is there (%s), but %s %s", variable, p.BaseURL, s.unreachableText(ctx, err))
	}
	status, text := interpretResponse(code, body)
	switch {
	case status == StatusOperative:
		return status, fmt.Sprintf("The key is there (%s), and %s %s", variable, p.BaseURL, text)
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return status, fmt.Sprintf("%s refuses the key in %s (HTTP %d): check the key", p.BaseURL, variable, code)
	}
	return status, fmt.Sprintf("The key is there (%s), but %s %s", variable, p.BaseURL, text)
}

// modelsURL returns the URL at which a server lists its models. Requesting it costs nothing.
func modelsURL(p *Provider) string {
	switch p.Protocol {
	case ProtocolAnthropic:
		return p.BaseURL + "/v1/models"
	case ProtocolGoogle:
		return p.BaseURL + "/v1beta/models"
	case ProtocolOllama:
		return p.BaseURL + "/api/tags"
	}
	return p.BaseURL + "/models"
}

// keyHeader returns the header that carries the key in the protocol.
func keyHeader(p *Provider, key string) map[string]string {
	switch {
	case key == "":
		return nil
	case p.Protocol == ProtocolAnthropic:
		return map[string]string{"X-Api-Key": key, "Anthropic-Version": "2023-06-01"}
	case p.Protocol == ProtocolGoogle:
		return map[string]string{"X-Goog-Api-Key": key}
	}
	return map[string]string{"Authorization": "Bearer " + key}
}

// interpretResponse interprets the response of a server to a request for its models. A server can work without listing its
// models, so it counts as operative if it answers that it does not have this method. The text continues a sentence that
// begins with the server's address.
func interpretResponse(code int, body []byte) (Status, string) {
	switch {
	case code == http.StatusOK && !json.Valid(body):
		return StatusUnreachable, "answers, but not like a model API: check its base_url"
	case code == http.StatusOK, code == http.StatusNotFound, code == http.StatusMethodNotAllowed, code == http.StatusNotImplemented:
		return StatusOperative, "answers"
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return StatusUnavailable, fmt.Sprintf("refuses to answer without a key (HTTP %d)", code)
	case code == http.StatusTooManyRequests:
		return StatusUnavailable, fmt.Sprintf("refuses requests now because a limit is reached (HTTP %d): try again later", code)
	case code >= 300 && code < 400:
		return StatusUnreachable, fmt.Sprintf("redirects to another address (HTTP %d): set its base_url to the address of the API", code)
	case code >= 500:
		return StatusUnreachable, fmt.Sprintf("has an internal error (HTTP %d): try again later", code)
	}
	return StatusUnavailable, fmt.Sprintf("refuses the request (HTTP %d)", code)
}

// unreachableText explains why a server did not answer. The text continues a sentence that begins with the server's address.
func (s *Service) unreachableText(ctx context.Context, err error) string {
	if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("does not answer within %s", s.cfg.ProbeTimeout)
	}
	return "cannot be reached: " + oneLine(err.Error())
}

// probeServer probes a model server, with a key if there is one, and checks that it has the model.
func (s *Service) probeServer(ctx context.Context, p *Provider) (Status, string) {
	_, key := s.findKey(p)
	code, body, err := s.probeEnvironment.Get(ctx, modelsURL(p), keyHeader(p, key))
	if err != nil {
		return StatusUnreachable, p.BaseURL + " " + s.unreachableText(ctx, err)
	}
	status, text := interpretResponse(code, body)
	if status != StatusOperative || code != http.StatusOK {
		return status, p.BaseURL + " " + text
	}
	models, ok := modelsOf(body)
	hint := ""
	if p.Protocol == ProtocolOllama {
		hint = fmt.Sprintf(": `ollama pull %s` gets it", p.Model)
	}
	switch {
	case !ok:
		return StatusUnreachable, p.BaseURL + " answers, but not like a model API: check its base_url"
	case len(models) == 0:
		return StatusUnavailable, fmt.Sprintf("%s answers, but has no models%s", p.BaseURL, hint)
	case !slices.ContainsFunc(models, func(m string) bool { return m == p.Model || strings.TrimSuffix(m, ":latest") == p.Model }):
		return StatusUnavailable, fmt.Sprintf("%s answers, but has no model %s%s; it has %s", p.BaseURL, p.Model, hint, modelsText(models))
	}
	return status, fmt.Sprintf("%s answers, and has %s", p.BaseURL, modelsText(models))
}

// modelsOf parses the models in the answer of Ollama or of a Chat Completions server. ok is false if the body is not such an
// answer.
func modelsOf(body []byte) (names []string, ok bool) {
	var answer struct {
		Models *[]struct {
			Name string `json:"name"`
		} `json:"models"`
		Data *[]struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Models == nil && answer.Data == nil {
		return nil, false
	}
	if answer.Models != nil {
		for _, m := range *answer.Models {
			names = append(names, oneLine(m.Name))
		}
	} else {
		for _, m := range *answer.Data {
			names = append(names, oneLine(m.ID))
		}
	}
	return names, true
}

// modelsText returns the number of models and the names of the first maxShownModels.
func modelsText(models []string) string {
	if len(models) == 1 {
		return "1 model: " + models[0]
	}
	if len(models) <= maxShownModels {
		return fmt.Sprintf("%d models: %s", len(models), strings.Join(models, ", "))
	}
	return fmt.Sprintf("%d models: %s and others", len(models), strings.Join(models[:maxShownModels], ", "))
}

// probeProgram checks that the provider's program is installed and that it runs with --version.
func (s *Service) probeProgram(ctx context.Context, p *Provider) (Status, string) {
	program := p.Program()
	path, output, err := s.probeEnvironment.Version(ctx, program)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return StatusUnavailable, fmt.Sprintf("There is no program %s on the server's PATH: install it", program)
	case ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded):
		return StatusUnavailable, fmt.Sprintf("%s does not say its version within %s", path, s.cfg.ProbeTimeout)
	case err != nil:
		return StatusUnavailable, fmt.Sprintf("%s does not run: %s", path, oneLine(err.Error()))
	}
	version := ""
	for line := range strings.Lines(output) {
		if version = oneLine(line); version != "" {
			break
		}
	}
	if version == "" {
		return StatusOperative, path + " runs, and does not say its version"
	}
	return StatusOperative, fmt.Sprintf("%s runs, version %s", path, version)
}

// oneLine returns text from another program as one short line without control characters.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || !unicode.IsPrint(r) && r != ' ' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, " "))
	return fleet.Shorten(strings.Join(strings.Fields(s), " "), 160)
}
