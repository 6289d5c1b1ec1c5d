package sandbox

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Network says which connections a program may make. It is Full, Offline, or a result of Allow.
type Network string

// Networks without a list.
const (
	Full    Network = "full" // TCP and UDP
	Offline Network = "none" // no connections; the program can create only socket pairs and sockets for queries about routes
)

// allowPrefix is the first word of a network that Allow returns. The addresses follow, separated by spaces.
const allowPrefix = "allow"

// Allow returns a network in which a program can connect only to the addresses. Each address has the form host:port.
// The program connects through a proxy at ProxyAddress. The proxy resolves host names, which the program cannot do.
func Allow(addresses ...string) Network {
	return Network(strings.Join(append([]string{allowPrefix}, addresses...), " "))
}

// ProxyAddress is the address of the proxy in a network of Allow. The proxy is an HTTP proxy that supports CONNECT.
const (
	ProxyAddress = "127.0.0.1:3128"
	proxyPort    = 3128 // the port of ProxyAddress
)

// Allowed returns the addresses of a network of Allow. For other networks, it returns nil.
func (n Network) Allowed() []string {
	if n.Kind() != allowPrefix {
		return nil
	}
	return strings.Fields(string(n))[1:]
}

// Kind returns full, none or allow, as in the configuration. It returns an empty string for the zero value.
func (n Network) Kind() string {
	kind, _, _ := strings.Cut(string(n), " ")
	return kind
}

// check returns an error that says what to correct if the network is not valid. The zero value is valid.
func (n Network) check() error {
	if !slices.Contains([]string{"", string(Full), string(Offline), allowPrefix}, n.Kind()) {
		return fmt.Errorf("network is %q: it must be full, none, or a list like {allow: [host:port]}", n)
	}
	for _, a := range n.Allowed() {
		host, port := splitAddress(a)
		if number, err := strconv.ParseUint(port, 10, 16); host == "" || strings.Contains(host, "*") || err != nil || number == 0 {
			return fmt.Errorf("network allows %q: write a host and a port, such as api.example.com:443", a)
		}
	}
	return nil
}

// splitAddress is like net.SplitHostPort, but returns empty strings for an invalid address. The helper cannot use packages that are
// initialised as late as net: see docs/decisions/022.
func splitAddress(a string) (host, port string) {
	i := strings.LastIndexByte(a, ':')
	if i < 0 {
		return "", ""
	}
	host, port = a[:i], a[i+1:]
	if inner, ok := strings.CutPrefix(host, "["); ok && strings.HasSuffix(inner, "]") {
		return strings.TrimSuffix(inner, "]"), port
	}
	if strings.ContainsAny(host, ":[]") {
		return "", ""
	}
	return host, port
}

// UnmarshalYAML accepts a word, or a mapping with a list of allowed addresses. Choose checks the word and the addresses.
func (n *Network) UnmarshalYAML(unmarshal func(any) error) error {
	var word string
	if unmarshal(&word) == nil {
		*n = Network(word)
		return nil
	}
	var list struct {
		Allow *[]any `yaml:"allow"`
	}
	if err := unmarshal(&list); err != nil {
		return err
	}
	if list.Allow == nil {
		return errors.New("network must be full, none, or a list like {allow: [host:port]}")
	}
	var addresses []string
	for _, v := range *list.Allow {
		a := fmt.Sprint(v)
		if pair, ok := v.(map[string]any); ok && len(pair) == 1 { // some decoders read host:port in braces as a mapping
			for host, port := range pair {
				a = fmt.Sprint(host, ":", port)
			}
		}
		if len(strings.Fields(a)) != 1 {
			return fmt.Errorf("network allows %q: write a host and a port, such as api.example.com:443", a)
		}
		addresses = append(addresses, a)
	}
	*n = Allow(addresses...)
	return nil
}
