"""The parts of Fairlead, and what passes between them."""

from __future__ import annotations

from fairlead_dev.pictures.svg import Drawing


def architecture() -> str:
    """The picture of docs/architecture.md."""
    picture = Drawing(
        900, 550, "The operator starts a sender and a receiver on two nodes; data go from one to the other over the shared link"
    )
    job = picture.box((20, 20), (200, 60), ["TransferJob", "what to move, from where"], "blue")
    policy = picture.box((20, 100), (200, 60), ["FairnessPolicy", "links and tenants"], "blue")
    known = picture.box((20, 180), (200, 60), ["DataTransferNode,", "NetworkPath: what is known"], "blue")
    operator = picture.box(
        (350, 60),
        (230, 140),
        ["Operator", "places jobs on nodes,", "computes shares of links,", "makes pods, retries,", "writes the status"],
        "green",
    )
    watching = picture.box((700, 100), (180, 60), ["Prometheus, Grafana", "metrics of every part"], "grey")
    for resource, height in ((job, 90), (policy, 130), (known, 170)):
        picture.arrow(resource.right, (285, resource.right[1]), (285, height), (350, height), both=resource is not policy)
    picture.arrow(watching.left, operator.right, dashed=True)
    picture.text((640, 120), "scrapes", quiet=True)

    picture.box((20, 300), (370, 230), ["Node dtn-a"], "grey", head=True)
    picture.box((40, 335), (330, 110), ["Sender pod, on the node's own network"], "white", head=True)
    mover = picture.box((55, 370), (140, 60), ["Mover (Rust)", "paces, encrypts"], "orange")
    advisor = picture.box((240, 370), (120, 60), ["Advisor", "probes, decides"], "orange")
    picture.arrow(advisor.left, mover.right)
    picture.box((55, 465), (140, 50), ["Node agent", "interfaces, load"], "green")
    guard = picture.box((240, 465), (120, 50), ["Node guard", "holds the caps"], "green")
    picture.arrow(guard.top, (300, 450), (150, 450), (150, 430))

    picture.box((640, 300), (240, 230), ["Node dtn-b"], "grey", head=True)
    receiver = picture.box(
        (660, 335), (200, 110), ["Receiver pod", "mover: verifies, writes,", "renames when all is there", "answers probes"], "orange"
    )
    picture.box((660, 465), (200, 50), ["Volume of the claim", "the files under their names"], "white")
    picture.arrow(receiver.bottom, (760, 465))

    picture.arrow((370, 352), (660, 352))
    picture.text((515, 344), "data: parallel TLS streams", bold=True)
    picture.arrow((360, 400), (660, 400), both=True)
    picture.text((515, 392), "probes: RTT and loss")
    picture.text((515, 432), "the wide-area link,", quiet=True)
    picture.text((515, 449), "shared with others' traffic", quiet=True)
    picture.arrow((420, 200), (420, 255), (320, 255), (320, 335), both=True)
    picture.text((310, 285), "cap ↓   ↑ progress, decision", anchor="end", quiet=True)
    picture.arrow((510, 200), (510, 255), (840, 255), (840, 335), both=True)
    picture.text((830, 285), "↑ verdict: every byte verified", anchor="end", quiet=True)
    return picture.render()
