"""How the advisor chooses the congestion control, and chooses again."""

from __future__ import annotations

from fairlead_dev.pictures.svg import Drawing


def loop() -> str:
    """The picture of docs/explanation/the-loop.md."""
    picture = Drawing(900, 560, "Survey, classification and choice before the data; watching, paused probes and switches while data flow")
    picture.box((15, 15), (870, 205), ["Before the data"], "grey", head=True)
    survey = picture.box((35, 75), (190, 100), ["Survey", "30 echo requests a second,", "5 s, or 10 s while in doubt"], "blue")
    classify = picture.box(
        (270, 75), (190, 100), ["Classifier", "probabilities of six classes", "of background, confidence,", "abstention"], "blue"
    )
    sure = picture.box((505, 95), (80, 60), ["Sure?"], "orange")
    choice = picture.box((665, 50), (200, 62), ["CUBIC or BBR", "least expected loss of share"], "green")
    safe = picture.box((665, 140), (200, 62), ["CUBIC", "the safe default"], "green")
    picture.arrow(survey.right, classify.left)
    picture.arrow(classify.right, sure.left)
    picture.arrow(sure.right, (625, 125), (625, 81), choice.left)
    picture.arrow(sure.right, (625, 125), (625, 171), safe.left)
    picture.text((620, 90), "yes", anchor="end")
    picture.text((620, 172), "no, or no model", anchor="end")

    picture.box((15, 250), (870, 295), ["While data flow"], "grey", head=True)
    picture.box(
        (640, 300),
        (225, 105),
        ["Monitor", "goodput, RTT at 10 Hz and loss,", "against the minute before;", "loaded classification every 5 s"],
        "blue",
    )
    picture.arrow((765, 220), (765, 300))
    quiet = picture.box(
        (330, 300), (190, 105), ["Paused probe", "the mover holds its data;", "the same survey and", "classifier again"], "blue"
    )
    picture.arrow((640, 340), (520, 340))
    picture.text((580, 358), "a lasting step,", quiet=True)
    picture.text((580, 375), "a contradiction,", quiet=True)
    picture.text((580, 392), "or long in doubt", quiet=True)
    again = picture.box((60, 315), (190, 75), ["Sure, and another", "choice is better?"], "orange")
    picture.arrow(quiet.left, again.right)
    picture.arrow(again.top, (155, 282), (700, 282), (700, 300))
    picture.text((165, 298), "no: probes become rarer", anchor="start", quiet=True)
    switch = picture.box((60, 455), (190, 62), ["Switch", "the live sockets"], "green")
    picture.arrow(again.bottom, switch.top)
    picture.text((165, 427), "yes", anchor="start")
    trial = picture.box((330, 455), (190, 62), ["Goodput after 20 s", "better than before?"], "orange")
    picture.arrow(switch.right, trial.left)
    picture.arrow((520, 475), (690, 475), (690, 405))
    picture.text((600, 468), "yes: kept", quiet=True)
    picture.arrow((520, 500), (800, 500), (800, 405))
    picture.text((655, 518), "no: back, barred for 5 minutes", quiet=True)
    return picture.render()
