// Command cilium-policy tells which flows Cilium allows under given policies, by Cilium's own schema, parser and policy engine.
//
// It reads one request as JSON from standard input and writes the verdicts as JSON to standard output; see `request` and `verdict`.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"sync"

	"github.com/cilium/cilium/pkg/identity"
	"github.com/cilium/cilium/pkg/identity/identitymanager"
	"github.com/cilium/cilium/pkg/k8s"
	v2 "github.com/cilium/cilium/pkg/k8s/apis/cilium.io/v2"
	"github.com/cilium/cilium/pkg/k8s/apis/cilium.io/v2/validator"
	slim "github.com/cilium/cilium/pkg/k8s/slim/k8s/api/networking/v1"
	"github.com/cilium/cilium/pkg/labels"
	"github.com/cilium/cilium/pkg/labelsfilter"
	"github.com/cilium/cilium/pkg/policy"
	"github.com/cilium/cilium/pkg/policy/types"
	"github.com/cilium/cilium/pkg/policy/utils"
	"github.com/cilium/cilium/pkg/u8proto"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	clusterName  = "default"
	clusterLabel = "io.cilium.k8s.policy.cluster"
	firstPod     = 1000
)

// request has CiliumNetworkPolicies or NetworkPolicies, who takes part, and the flows to be judged.
type request struct {
	Policies  []map[string]any `json:"policies"`
	Endpoints map[string]struct {
		// Labels of a pod as Cilium sees them, without the source `k8s:`; or
		Labels map[string]string `json:"labels"`
		// a network outside of the cluster; or
		CIDR string `json:"cidr"`
		// one of Cilium's own identities, such as `host`, `kube-apiserver` or `world`.
		Reserved string `json:"reserved"`
	} `json:"endpoints"`
	Flows []struct {
		From     string `json:"from"`
		To       string `json:"to"`
		Protocol string `json:"protocol"`
		Port     uint16 `json:"port"`
	} `json:"flows"`
}

// verdict says for one flow whether its sender may send it and its receiver may receive it.
type verdict struct {
	Egress  bool `json:"egress"`
	Ingress bool `json:"ingress"`
}

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "cilium-policy:", err)
		os.Exit(1)
	}
}

func run(input io.Reader, output io.Writer) error {
	var asked request
	decoder := json.NewDecoder(input)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&asked); err != nil {
		return fmt.Errorf("request: %w", err)
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	if err := labelsfilter.ParseLabelPrefixCfg(logger, nil, nil, ""); err != nil {
		return fmt.Errorf("labels of identities: %w", err)
	}
	who, err := identities(asked)
	if err != nil {
		return err
	}
	known := identity.ListReservedIdentities()
	for _, each := range who {
		known[each.ID] = each.LabelArray
	}
	manager := identitymanager.NewIDManager(logger)
	repository := policy.NewPolicyRepository(logger, known, nil, nil, manager, uncounted{})
	repository.GetSubjectSelectorCache().UpdateIdentities(known, nil, &sync.WaitGroup{})
	for _, object := range asked.Policies {
		entries, err := parse(logger, object)
		if err != nil {
			return err
		}
		repository.MustAddPolicyEntries(entries)
	}
	verdicts := make([]verdict, 0, len(asked.Flows))
	for number, flow := range asked.Flows {
		protocol, err := u8proto.ParseProtocol(flow.Protocol)
		if err != nil {
			return fmt.Errorf("flow %d: %w", number, err)
		}
		from, to := who[flow.From], who[flow.To]
		if from == nil || to == nil {
			return fmt.Errorf("flow %d: %q or %q is none of the endpoints", number, flow.From, flow.To)
		}
		found, _, _, err := policy.LookupFlow(logger, repository, manager, types.Flow{From: from, To: to, Proto: protocol, Dport: flow.Port})
		if err != nil {
			return fmt.Errorf("flow %d: %w", number, err)
		}
		verdicts = append(verdicts, verdict{found.Egress == types.DecisionAllowed, found.Ingress == types.DecisionAllowed})
	}
	return json.NewEncoder(output).Encode(verdicts)
}

func identities(asked request) (map[string]*identity.Identity, error) {
	found, next := map[string]*identity.Identity{}, identity.NumericIdentity(firstPod)
	for name, endpoint := range asked.Endpoints {
		next++
		switch {
		case endpoint.Reserved != "":
			id := identity.GetReservedID(endpoint.Reserved)
			if id == identity.IdentityUnknown {
				return nil, fmt.Errorf("endpoint %s: Cilium has no identity %q", name, endpoint.Reserved)
			}
			found[name] = identity.LookupReservedIdentity(id)
		case endpoint.CIDR != "":
			prefix, err := netip.ParsePrefix(endpoint.CIDR)
			if err != nil {
				return nil, fmt.Errorf("endpoint %s: %w", name, err)
			}
			found[name] = identity.NewIdentity(identity.IdentityScopeLocal|next, labels.GetCIDRLabels(prefix))
		default:
			all := labels.Map2Labels(endpoint.Labels, labels.LabelSourceK8s)
			all[clusterLabel] = labels.NewLabel(clusterLabel, clusterName, labels.LabelSourceK8s)
			// Not every label is part of an identity, and policies match identities alone.
			relevant, _ := labelsfilter.Filter(all)
			found[name] = identity.NewIdentity(next, relevant)
		}
	}
	return found, nil
}

// parse takes a policy as the agent does, after the checks of its schema.
func parse(logger *slog.Logger, object map[string]any) (types.PolicyEntries, error) {
	body := unstructured.Unstructured{Object: object}
	name := fmt.Sprintf("%s %s", body.GetKind(), body.GetName())
	text, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	switch body.GetKind() {
	case "NetworkPolicy":
		var plain slim.NetworkPolicy
		if err := json.Unmarshal(text, &plain); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return k8s.ParseNetworkPolicy(logger, clusterName, &plain)
	case "CiliumNetworkPolicy":
		checker, err := validator.NewNPValidator(logger)
		if err != nil {
			return nil, err
		}
		if err := checker.ValidateCNP(&body); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		var own v2.CiliumNetworkPolicy
		if err := json.Unmarshal(text, &own); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		rules, err := own.Parse(logger, clusterName)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return utils.RulesToPolicyEntries(rules), nil
	}
	return nil, fmt.Errorf("%s: only NetworkPolicy and CiliumNetworkPolicy are understood", name)
}

// uncounted is for an engine whose rules nobody counts.
type uncounted struct{}

func (uncounted) AddRule(types.PolicyEntry) {}
func (uncounted) DelRule(types.PolicyEntry) {}
